"""Asking the management API from the command line: of a server, or of a store that is opened for it."""

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from holdfast.cli.session import is_server, open_kept, server_urls, tls_of
from holdfast.client.connection import Connection
from holdfast.client.endpoints import check_token, parse_endpoint
from holdfast.client.errors import BadReply, Refused, Unreachable


class ManagementClient:
    def __init__(self, url: str, arguments: argparse.Namespace) -> None:
        self.url = url
        self._endpoint = parse_endpoint(url)
        self._token = arguments.token
        self._tls = tls_of(arguments)
        self._link: Connection | None = None

    async def get(self, *path: str, **query: Any) -> Any:
        """The answer; raises what the node refuses, or that it cannot be reached."""
        given = {name: value for name, value in query.items() if value is not None}
        target = "/v1/" + "/".join(quote(part, safe="") for part in path)
        try:
            if self._link is None or not self._link.is_usable:
                self._link = await Connection.open(self._endpoint, self._token, self._tls)
            response = await self._link.get(f"{target}?{urlencode(given)}" if given else target)
        except OSError as error:
            self._link = None
            raise Unreachable(f"{self._endpoint} cannot be reached: {error}") from error
        try:
            found = msgspec.json.decode(response.body)
            if response.status == 200:
                return found
            refusal = Refused(response.status, f"{found['error']}. {found.get('hint', '')}", found["code"])
        except (msgspec.DecodeError, KeyError, TypeError):
            raise BadReply(
                f"{self._endpoint} answered with {response.status} and a body that is not from Holdfast"
            ) from None
        raise refusal

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close()


@asynccontextmanager
async def asking(arguments: argparse.Namespace) -> AsyncGenerator[ManagementClient]:
    async with served(arguments) as url:
        management = ManagementClient(url, arguments)
        try:
            yield management
        finally:
            await management.close()


@asynccontextmanager
async def served(arguments: argparse.Namespace, port: int = 0) -> AsyncGenerator[str]:
    """The URL of the server; for a store, of one that is made for the time of a block, on this machine."""
    if is_server(arguments.server):
        check_token(arguments.token)
        yield server_urls(arguments.server)[0]
        return
    from holdfast.node import Node
    from holdfast.server import Settings, serving_management

    settings = Settings(port=port)
    async with Node(open_kept(arguments.server)) as node, serving_management(node, settings) as server:
        yield server.url
