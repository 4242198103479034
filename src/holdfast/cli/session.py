"""The connection of one command to a node: connects, asks, returns data, disconnects.

The node is a server's; or, if `-S` names a store, one that lives for as long as the command does.
"""

import argparse
import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import astuple, replace

from holdfast.cli.options import Subparsers, add_connection, default_url
from holdfast.client.caller import Caller
from holdfast.client.errors import Unreachable
from holdfast.client.http import HttpClient
from holdfast.client.tls import client_context, find_certificate
from holdfast.protocol.records import Millis
from holdfast.protocol.replies import (
    Empty,
    ExecutionsReply,
    PromisesReply,
    Reply,
    SchedulesReply,
    TasksReply,
)
from holdfast.protocol.requests import (
    ExecutionSearch,
    PromiseGet,
    PromiseSearch,
    RequestData,
    ScheduleSearch,
    TaskSearch,
)
from holdfast.store.interface import Store
from holdfast.store.urls import UnknownStore, is_missing, open_store

if TYPE_CHECKING:
    from holdfast.client.embedded import EmbeddedClient

default_file: Final = "holdfast.db"  # of an app that was given no URL
_beside: Final = f"There is a {default_file} in this folder: add -S sqlite:///{default_file} to read that"

Data = TypeVar("Data")
Page = TypeVar("Page", PromisesReply, TasksReply, SchedulesReply, ExecutionsReply)
Search = PromiseSearch | TaskSearch | ScheduleSearch | ExecutionSearch
Command = Callable[["CliSession", argparse.Namespace], Awaitable[None]]


class CliSession:
    def __init__(self, client: "HttpClient | EmbeddedClient") -> None:
        self._client = client
        # A person waits for the answer, and is told at once that the node is busy.
        self.caller = Caller(client, tries_max=1)

    async def ask(self, data: RequestData, shape: type[Data]) -> Data:
        """The data of the reply; raises `Refused` when the node refuses."""
        return await self.caller.ask(data, shape)

    async def ask_all(self, asked: Sequence[RequestData], shape: type[Data]) -> list[Data]:
        """In one commit, in this order."""
        return await self.caller.ask_all(asked, shape)

    async def replies(self, asked: Sequence[RequestData]) -> list[Reply]:
        return await self.caller.replies(asked)

    async def reply(self, data: RequestData) -> Reply:
        [reply] = await self.replies([data])
        return reply

    async def now(self, promise_id: str) -> Millis:
        """The node's clock. Far away it is known after the first answer, so something is asked for."""
        await self.reply(PromiseGet(promise_id))
        return self._client.now()

    async def do(self, data: RequestData) -> None:
        await self.ask(data, Empty)

    async def pages(self, search: Search, shape: type[Page], *, every: bool) -> list[Page]:
        """The first page of a search that has anything on it, or all of them."""
        pages = [await self.ask(search, shape)]
        while (cursor := pages[-1].cursor) is not None and (every or not astuple(pages[-1])[0]):
            pages.append(await self.ask(replace(search, cursor=cursor), shape))
        return pages


def add_command(
    commands: "Subparsers[argparse.ArgumentParser]", name: str, line: str, command: Command
) -> argparse.ArgumentParser:
    """A subcommand that talks to a node."""
    parser = commands.add_parser(name, help=line, description=f"{line[0].upper()}{line[1:]}.")
    parser.set_defaults(run=with_session(command))
    add_connection(parser)
    return parser


def with_session(command: Command) -> Callable[[argparse.Namespace], int]:
    """Make a command of a coroutine that talks to a node."""

    def run(arguments: argparse.Namespace) -> int:
        asyncio.run(_converse(command, arguments))
        return 0

    return run


async def _converse(command: Command, arguments: argparse.Namespace) -> None:
    if is_server(arguments.server):
        try:
            async with _ask_server(arguments) as far:
                await command(CliSession(far), arguments)
        except Unreachable as error:
            if arguments.server == default_url and _has_own_file():
                raise Unreachable(f"{error.what}. {_beside}") from error
            raise
    else:
        async with _ask_store(arguments.server) as near:
            await command(CliSession(near), arguments)


def _has_own_file() -> bool:
    return Path(default_file).is_file()


def is_server(url: str) -> bool:
    """Is it a node behind HTTP, and not a store?"""
    scheme, named, _ = url.partition(":")
    return scheme in ("http", "https") or not (named and ("://" in url or scheme == "memory"))


@asynccontextmanager
async def _ask_server(arguments: argparse.Namespace) -> AsyncGenerator[HttpClient]:
    """A person waits for the answer: say at once that a node is away instead of trying again."""
    limit_s = arguments.limit_ms / 1000
    urls = server_urls(arguments.server)
    async with HttpClient(
        urls,
        token=arguments.token,
        tls=tls_of(arguments),
        limit_s=limit_s,
        attempt_s=limit_s,
        persistent=False,
    ) as client:
        yield client


@asynccontextmanager
async def _ask_store(url: str) -> AsyncGenerator["EmbeddedClient"]:
    from holdfast.client.embedded import EmbeddedClient
    from holdfast.node import Node

    async with Node(open_kept(url)) as node:
        yield EmbeddedClient(node)


def open_kept(url: str) -> Store:
    """A store that is there already: a file with a wrong name must not come into being by a look at it."""
    if url.startswith("memory:") or is_missing(url):
        raise UnknownStore(f"There is nothing at {url}: is this the right place? [{UnknownStore.code}]")
    return open_store(url)


def tls_of(arguments: argparse.Namespace) -> ssl.SSLContext | None:
    return client_context(find_certificate(arguments.client_cert, arguments.client_key))


def server_urls(text: str) -> list[str]:
    return [url.strip() for url in text.split(",")]
