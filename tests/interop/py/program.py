"""A program that uses the official Python SDK as any user would: it registers functions, works for a group,
and does what it is told by one JSON object per line on its standard input.

python program.py URL GROUP TTL_MS
"""

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from resonate.context import Context
from resonate.resonate import Resonate
from resonate.retry import Never
from resonate.types import PromiseCreateReq, Value


async def add(ctx: Context, a: int, b: int) -> int:
    return a + b


async def mark(ctx: Context, directory: str, text: str) -> str:
    with (Path(directory) / "marks").open("a") as file:
        file.write(f"{text}\n")
    return text


async def hang(ctx: Context, directory: str) -> str:
    hung = Path(directory) / "hung"
    if hung.exists():
        return "two"
    hung.touch()
    await asyncio.sleep(3_600)
    return "never"


async def nested(ctx: Context, depth: int) -> int:
    if depth == 0:
        return 1
    below = await ctx.run(nested, depth - 1)
    return await ctx.run(add, below, 1)


async def remote(ctx: Context, target: str, a: int, b: int) -> int:
    return await ctx.options(target=target).rpc("add", a, b)


async def napper(ctx: Context, ms: int) -> str:
    await ctx.sleep(timedelta(milliseconds=ms))
    return "rested"


async def human(ctx: Context) -> str:
    return f"got {await ctx.promise()}"


async def detacher(ctx: Context, target: str) -> str:
    await ctx.options(target=target).detached("add", 20, 22)
    return "left"


async def thrower(ctx: Context, message: str) -> None:
    raise ValueError(message)


async def catcher(ctx: Context, message: str, target: str) -> list[str]:
    caught: list[str] = []
    try:
        await ctx.options(retry_policy=Never()).run(thrower, f"{message} here")
    except ValueError as error:
        caught.append(str(error))
    try:
        await ctx.options(target=target).rpc("thrower", f"{message} there")
    except ValueError as error:
        caught.append(str(error))
    return caught


async def slow(ctx: Context, directory: str) -> list[str]:
    first = await ctx.run(mark, directory, "one")
    second = await ctx.run(hang, directory)
    return [first, second]


async def carry_out(resonate: Resonate, command: dict[str, Any]) -> Any:
    chosen = resonate.options(target=command["target"]) if command.get("target") else resonate
    match command["op"]:
        case "run":
            return await chosen.run(command["id"], command["func"], *command["args"]).result()
        case "rpc":
            return await chosen.rpc(command["id"], command["func"], *command["args"]).result()
        case "create":
            # `promises.create` of this SDK keeps only the data of a param. Its sender takes the headers too.
            call = {"func": command["func"], "args": command["args"]}
            data = resonate.promises.codec.encode(call).data
            wanted = PromiseCreateReq(
                id=command["id"],
                timeout_at=command["timeout_at"],
                param=Value(headers=command["headers"], data=data),
                tags={"resonate:target": command["target"]},
            )
            return (await resonate.promises.sender.promise_create(wanted)).id
        case "headers":
            return (await resonate.promises.get(command["id"])).param.headers
        case "get":
            return await (await resonate.get(command["id"])).result()
        case "schedule":
            await resonate.schedule(command["id"], command["cron"], command["func"], command["args"])
            return command["id"]
        case "unschedule":
            await resonate.schedules.delete(command["id"])
            return command["id"]
        case other:
            raise ValueError(f"no operation {other}")


def say(line: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(line)}\n")
    sys.stdout.flush()


async def answer(resonate: Resonate, command: dict[str, Any]) -> None:
    try:
        say({"n": command["n"], "value": await carry_out(resonate, command)})
    except Exception as error:
        say({"n": command["n"], "error": str(error)})


async def main(url: str, group: str, ttl_ms: str) -> None:
    resonate = Resonate(url=url, group=group, ttl=timedelta(milliseconds=int(ttl_ms)))
    for func in (add, mark, hang, nested, remote, napper, human, detacher, thrower, catcher, slow):
        resonate.register(func, retry_policy=Never())
    say({"ready": True})
    working: set[asyncio.Task[None]] = set()
    while line := await asyncio.to_thread(sys.stdin.readline):
        task = asyncio.create_task(answer(resonate, json.loads(line)))
        working.add(task)
        task.add_done_callback(working.discard)
    await resonate.stop()


asyncio.run(main(*sys.argv[1:]))
