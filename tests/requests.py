"""Requests as a caller in the same process builds them."""

from itertools import count
from typing import Any

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
