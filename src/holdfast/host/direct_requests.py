"""Asking the node without the app's event loop, for heartbeats while that stands still: see loop_watch.py.

A store in this process, with a thread of its own or in memory, is asked directly: its node is on the loop
that stands still. PostgreSQL and a server are asked over a connection that is opened for it, on another loop.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from holdfast.client.tls import client_context
from holdfast.engine import Rules
from holdfast.host.loop_watch import LoopWatch
from holdfast.host.settings import SessionSettings
from holdfast.node import Node
from holdfast.node.group import CommitContext, run_group
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request
from holdfast.store.urls import file_of, open_store

attempt_s: float = 5.0


def watch_loop(settings: SessionSettings, node: Node | None) -> LoopWatch:
    """A watch over the loop that runs here. It has begun, and is to be stopped."""
    is_here = settings.url.startswith("memory:") or file_of(settings.url) is not None
    send = node.request_apart if node is not None and is_here else partial(_ask_apart, settings)
    watch = LoopWatch(send, settings.lease_s)
    watch.start()
    return watch


def _ask_apart(settings: SessionSettings, requests: Sequence[Request]) -> list[Reply]:
    is_far = settings.url.startswith(("http://", "https://"))
    return asyncio.run(_ask_server(settings, requests) if is_far else _ask_store(settings, requests))


async def _ask_server(settings: SessionSettings, requests: Sequence[Request]) -> list[Reply]:
    from holdfast.client.http import HttpClient

    limit_s = min(attempt_s, settings.lease_s / 2)
    tls = client_context(settings.certificate)
    urls = settings.url.split(",")
    async with HttpClient(urls, token=settings.token, tls=tls, limit_s=limit_s, attempt_s=limit_s) as client:
        return await client.request(requests)


async def _ask_store(settings: SessionSettings, requests: Sequence[Request]) -> list[Reply]:
    store = open_store(settings.url)
    reading = await store.open()
    try:
        moment = CommitContext(reading, Rules(), debug=False)
        return (await store.transact(lambda: run_group(requests, moment))).replies
    finally:
        await store.close()
