"""Requests as a caller in the same process builds them."""

from collections.abc import Callable
from itertools import count
from typing import Any

from holdfast.node import Node
from holdfast.protocol.dialect import dialect_of
from holdfast.protocol.records import TaskRef, Value
from holdfast.protocol.requests import (
    KINDS,
    PromiseCreate,
    PromiseGet,
    PromiseRegisterCallback,
    PromiseRegisterListener,
    PromiseSettle,
    Request,
    RequestData,
    TaskAcquire,
    TaskHeartbeat,
)

_numbers = count()
_names = {data: kind for kind, data in reversed(KINDS.items())}

FAR = 2**52


def ask(data: RequestData, version: str = "2026-04-01") -> Request:
    return Request(_names[type(data)], f"r{next(_numbers)}", version, dialect_of(version), data)


def create(promise_id: str, timeout_at: int = FAR, data: str = "", **tags: str) -> Request:
    entries = {f"resonate:{name}": value for name, value in tags.items()}
    return ask(PromiseCreate(promise_id, timeout_at, Value(data=data) if data else Value(), entries))


def get(promise_id: str) -> Request:
    return ask(PromiseGet(promise_id))


def settle(promise_id: str, data: str = "") -> Request:
    return ask(PromiseSettle(promise_id, "resolved", Value(data=data)))


def listen(promise_id: str, address: str) -> Request:
    return ask(PromiseRegisterListener(promise_id, address))


def register(awaited: str, awaiter: str) -> Request:
    return ask(PromiseRegisterCallback(awaited, awaiter))


def acquire(task_id: str, version: int = 0, pid: str = "p", ttl: int = 60_000) -> Request:
    return ask(TaskAcquire(task_id, version, pid, ttl))


def heartbeat(pid: str, *refs: tuple[str, int]) -> Request:
    return ask(TaskHeartbeat(pid, [TaskRef(*ref) for ref in refs]))


def promise_of(reply: Any) -> Any:
    assert reply.status == 200, reply
    return reply.data.promise


async def ask_before_due(node: Node, requests: Callable[[str, int], list[Request]]) -> str:
    """Ask for promises that fall due in a moment, by the clock of the store. Answers how their ids begin.

    A machine may be slower than that moment, and then they are over when they are made. So they are made
    again, under other ids and with more time, until all of them are pending.
    """
    for ahead_ms in (400, 4_000, 40_000):
        mark = f"in-{ahead_ms}-"
        [clock] = await node.request([create(f"{mark}clock")])
        replies = await node.request(requests(mark, promise_of(clock).created_at + ahead_ms))
        if {promise_of(reply).state for reply in replies} == {"pending"}:
            return mark
    raise AssertionError("a request took longer than 40 s")
