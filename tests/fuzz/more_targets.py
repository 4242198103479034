"""Decoders that hear from other nodes, other processes and the store, and jobs among the envelopes."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from holdfast.client.connection import Broken
from holdfast.client.stream import events_of
from holdfast.client.wire import decode_message
from holdfast.jobs.outcome import read_result, store_error
from holdfast.jobs.result import TaskError, TaskResult
from holdfast.node import cluster
from holdfast.node.changes import Changes
from holdfast.node.message_router import MessageRouter
from holdfast.node.observed import Observed
from holdfast.payloads import error_values
from holdfast.payloads.error_values import KnownErrors
from holdfast.payloads.errors import UndecodablePayload
from holdfast.payloads.payloads import Payloads, dump, load
from holdfast.protocol.messages import Execute
from holdfast.protocol.records import Promise, TaskRef, Value
from holdfast.steps import child
from holdfast.store.interface import Bus
from holdfast.store.memory import MemoryStore
from tests.fuzz.cursor_target import CURSORS
from tests.fuzz.mutation import damage_bytes, damage_json, damage_text, to_body
from tests.fuzz.target import MESSAGES, PROMISE, Target
from tests.server.http import envelope

# --- jobs, through a whole node ---------------------------------------------------------------------------

_SPECS: list[dict[str, Any]] = [
    {
        "sentAt": 1,
        "goodUntil": 2**52,
        "retry": {"retries": 3, "delays": [100, 200], "codes": ["A"], "jitter": True},
        "key": "k",
        "unique": "u",
        "onUnique": "replace",
    },
    {"retry": {"retries": 5, "base": 100, "factor": 2.0, "max": 5_000}},
    {"goodFor": 1_000, "unique": "u", "onUnique": "debounce"},
]


def make_jobs(chance: random.Random) -> bytes:
    """A few steps in the lives of a few jobs; what a job says of itself is damaged more often than not."""
    return to_body([_job_request(chance) for _ in range(3)])


def _job_request(chance: random.Random) -> Any:
    spec = chance.choice(_SPECS)
    text = json.dumps(damage_json(spec, chance) if chance.random() < 0.7 else spec)
    if chance.random() < 0.2:
        text = damage_text(text, chance)
    name = f"job{chance.randrange(6)}"
    entries = {"resonate:target": "poll://any@queue.q", "holdfast:job": text}
    held = {"id": name, "version": chance.randrange(1, 3)}
    request = chance.choice(
        [
            envelope("promise.create", {"id": name, "timeoutAt": 2**52, "param": {}, "tags": {**entries}}),
            envelope(
                "task.claim", {"pid": "p", "ttl": 1_000, "count": 3, "groups": ["queue.q"], "start": True}
            ),
            envelope("task.start", held),
            envelope("task.fail", {**held, "code": "A", "value": {}}),
            envelope("task.release", held),
            envelope("task.cancel", {"id": name}),
            envelope("queue.set", {"name": "q", "concurrency": 2}),
        ]
    )
    return damage_json(request, chance) if chance.random() < 0.2 else request


# --- what one node tells another --------------------------------------------------------------------------

_CALLS = [
    msgspec.json.encode(each).decode()
    for each in (
        cluster.NodeCall("n1", [Execute("poll://any@g", TaskRef("t", 1), "A", True)], [], 5, ["g"]),
        cluster.NodeCall("n1", [], [cluster.Settled("poll://any@g", "p", "B")], None, []),
        cluster.NodeCall("n1", is_reading=True),
        cluster.NodeCall(
            "n1", changes=[Changes({"a": ("task", "running", "pay")}, {"mail": None}, more=True)]
        ),
    )
]


class _Home:
    """A node that serves one worker and knows no promise."""

    def __init__(self) -> None:
        self.router = MessageRouter()
        self.router.connect("g", "me")
        self.observed = Observed(MemoryStore(), self.router)
        self.observed.feed.open()

    def note_due(self, instant: int) -> None:
        pass

    def want_sweep(self) -> None:
        pass

    async def offers(self, group: str, limit: int) -> list[Execute]:
        return []

    async def find_promises(self, promise_ids: Sequence[str]) -> list[Promise]:
        return []


class _SilentBus:
    text_bytes_max = 7_900

    async def start(self, hear: Any, missed: Any) -> None:
        self.hear = hear

    async def say(self, texts: Sequence[str]) -> None:
        pass

    def reconnect(self) -> None:
        pass

    async def stop(self) -> None:
        pass


def hear_call(text: str) -> None:
    """As a node does that was told this by another."""

    async def hear() -> None:
        bus = _SilentBus()
        heard: Bus = bus
        node = cluster.Cluster(_Home(), heard, random.Random(1))
        await node.start()
        bus.hear(text)
        await asyncio.sleep(0)
        await node.stop()

    asyncio.run(hear())


def _make_call(chance: random.Random) -> str:
    document = json.loads(chance.choice(_CALLS))
    text = json.dumps(damage_json(document, chance)) if chance.random() < 0.7 else json.dumps(document)
    return damage_text(text, chance) if chance.random() < 0.4 else text


# --- the splitter of a message stream ---------------------------------------------------------------------

_STREAM = b"retry: 5\n\n: hello\n\n" + b"".join(b"id: 4\r\ndata: " + each + b"\r\n\r\n" for each in MESSAGES)


def _make_chunks(chance: random.Random) -> list[bytes]:
    stream = damage_bytes(_STREAM, chance) if chance.random() < 0.8 else _STREAM
    places = sorted(chance.randrange(len(stream) + 1) for _ in range(chance.randrange(6)))
    return [stream[start:end] for start, end in zip([0, *places], [*places, len(stream)], strict=True)]


def _swallow_chunks(chunks: list[bytes]) -> None:
    """However it is cut into pieces, the same events come of it."""

    async def split(pieces: list[bytes]) -> list[bytes]:
        async def arriving() -> AsyncIterator[bytes]:
            for piece in pieces:
                yield piece

        return [event async for events in events_of(arriving()) for event in events]

    data = b"".join(chunks)
    whole, cut = asyncio.run(split([data])), asyncio.run(split(chunks))
    ends_lines_well = b"\r" not in data.replace(b"\r\n", b"")
    assert cut == whole or not ends_lines_well, f"{cut} and {whole}"
    for event in whole:
        decode_message(event, "poll://uni@g/me")


# --- frames of child processes ----------------------------------------------------------------------------

_HELLO = dump(child.Hello(["/x"], "m", None))
_ORDER = dump({"module": "m", "qualname": "f", "args": [1], "kwargs": {"a": "b"}, "attempt": 1, "info": None})
_ANSWERS = [
    child.VALUE + dump({"a": [1, 2]}),
    child.ERROR + dump(error_values.describe(ValueError("x", 1))),
    child.ERROR + dump({"type": "os:system", "message": "x", "args": ["true"]}),
]


def _framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(child.LENGTH_BYTES, "big") + frame


def _make_frames(chance: random.Random) -> bytes:
    frames = b"".join(_framed(each) for each in (_HELLO, _ORDER, chance.choice(_ANSWERS)))
    return damage_bytes(frames, chance)


def _swallow_frames(data: bytes) -> None:
    stream = io.BytesIO(data)
    while (frame := child._read(stream)) is not None:  # pyright: ignore[reportPrivateUsage]
        for what in (child.Hello, child.ChildRequest):
            _try(frame, what)
        if frame[:1] == child.ERROR:
            assert isinstance(error_values.restore(_try(frame[1:]), {}), Exception)


def _try(frame: bytes, what: Any = Any) -> Any:
    try:
        return load(frame, what)
    except UndecodablePayload:
        return None


# --- what became of a task, as it is stored ---------------------------------------------------------------

_PAYLOADS = Payloads()
_STORED: list[dict[str, Any]] = [
    {"__type": "error", "name": "TaskError", "message": "m", "code": "BROKEN", "data": {"a": 1}},
    {"message": "m", "code": "BROKEN", "exception": error_values.describe(ValueError("x", 1))},
    {"code": "BROKEN", "exception": {"type": "builtins:KeyError", "args": [1], "cause": {"type": "x:y"}}},
]


def _make_result(chance: random.Random) -> Promise:
    body = to_body(damage_json(chance.choice(_STORED), chance))
    value = Value(None, base64.b64encode(body).decode("ascii"))
    if chance.random() < 0.2:
        value = store_error(TaskError("BROKEN", "m", {"a": 1}, ValueError("x")), _PAYLOADS).value
    if chance.random() < 0.3:
        value = Value(value.headers, damage_text(value.data or "", chance))
    if chance.random() < 0.2:
        value = Value({"holdfast-code": damage_text("TASK_EXPIRED", chance)}, None)
    states = ["resolved", "rejected", "rejected", "rejected_canceled", "rejected_timedout", "pending"]
    return msgspec.convert(
        PROMISE | {"state": chance.choice(states), "value": msgspec.to_builtins(value)}, Promise
    )


class Typed(TaskError, frozen=True):
    data: dict[str, int] | None = None


def _swallow_result(promise: Promise) -> None:
    for returns, error_type in ((Any, TaskError), (dict[str, int], Typed)):
        result = read_result(promise, returns, error_type, _PAYLOADS, KnownErrors())
        assert isinstance(result, TaskResult)
        assert result.is_ok or isinstance(result.err_value, TaskError)


def more_targets() -> list[Target]:
    unreadable = (msgspec.DecodeError, UnicodeDecodeError)
    return [
        Target("calls", _make_call, hear_call),
        Target("streams", _make_chunks, _swallow_chunks, (*unreadable, Broken)),
        Target("frames", _make_frames, _swallow_frames),
        Target("results", _make_result, _swallow_result),
        CURSORS,
    ]
