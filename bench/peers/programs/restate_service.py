"""A Restate service of one handler: `steps` no-op steps; and a virtual object that counts. Serves on the
port given, on loopback only."""

import asyncio
import sys

import hypercorn.asyncio
import restate
from hypercorn.config import Config

bench = restate.Service("bench")


async def no_op() -> None:
    pass


@bench.handler()
async def flow(ctx: restate.Context, count: int) -> int:
    for _ in range(count):
        await ctx.run_typed("no_op", no_op)
    return count


account = restate.VirtualObject("account")


@account.handler()
async def deposit(ctx: restate.ObjectContext, cents: int) -> int:
    balance = (await ctx.get("balance", type_hint=int) or 0) + cents
    ctx.set("balance", balance)
    return balance


config = Config()
config.bind = [f"127.0.0.1:{sys.argv[1]}"]
config.h2_max_concurrent_streams = 2_147_483_647
config.keep_alive_max_requests = 2_147_483_647
config.keep_alive_timeout = 2_147_483_647
print("ready", flush=True)
asyncio.run(hypercorn.asyncio.serve(restate.app([bench, account]), config))
