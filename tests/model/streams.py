"""The oracle's streams: numbered rows of promises below an execution, as protocol.md tells of them.

Part of the oracle, so it shares nothing with the product. A stream is looked up by walking its numbers; the
record of an execution is what a snapshot shows of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.model import fields
from tests.model.fields import Json, Refused, bad
from tests.model.machine import GENERATION, Machine, Promise, Task, below as below, headers_of

if TYPE_CHECKING:
    from tests.model.oracle import Answer, Call

NAME = re.compile(r"in|out\.[A-Za-z0-9_-]{1,100}|value\.[A-Za-z0-9_-]{1,100}")
ANSWER_TAG = "holdfast:answer"
DEPENDENT_TAG = "holdfast:dependent"
NOT_OF_AN_ANSWER = ("resonate:target", "resonate:invoke", "resonate:delay", "holdfast:job")


def value_chars(value: Json) -> int:
    headers: Json = value.get("headers") or {}
    return len(value.get("data") or "") + sum(len(name) + len(text) for name, text in headers.items())


@dataclass(slots=True)
class Asked:
    """What a stream.append asks for."""

    id: str
    stream: str
    value: Json
    key: str | None
    answer: Json | None
    expect: dict[str, str] = field(default_factory=dict[str, str])


class StreamMachine(Machine):
    """The requests stream.*, and the same as actions of a fence."""

    ELEMENTS_MAX = 1_000_000
    STREAMS_MAX = 64
    UNREAD_MAX = 10_000
    UNREAD_CHARS_MAX = 16 * 1_048_576
    OPEN_ANSWERS_MAX = 1_000
    PAGE_MAX = 256
    PAGE = 100
    PAGE_CHARS = 1_048_576
    SKIPS_MAX = 100

    # ------------------------------------------------------------------------------------------ requests

    def stream_append(self, data: Json, call: Call) -> Answer:
        return 200, self.append(self.read_append(data), None, call)

    def stream_next(self, data: Json, call: Call) -> Answer:
        return 200, self.next_element(*self.read_next(data), None, call)

    def stream_read(self, data: Json, call: Call) -> Answer:
        execution_id, stream = fields.identifier(data, "id"), read_name(data)
        after = fields.optional_integer(data, "after", 0, 2**53 - 1)
        limit = fields.optional_integer(data, "limit", 1, 256)
        last = fields.flag(data, "last")
        if last and after is not None:
            raise bad("last and after contradict each other")
        execution = self.execution(execution_id)
        count = self.count(execution, stream)
        first = max(1, count) if last else max(after or 0, self.gone(execution, stream)) + 1
        return 200, {
            "promises": self.page_of(execution, stream, first, min(limit or self.PAGE, self.PAGE_MAX), call),
            "number": first,
            "count": count,
            "over": not self.live(execution_id, call.now),
        }

    def stream_list(self, data: Json, call: Call) -> Answer:
        execution = self.execution(fields.identifier(data, "id"))
        record = self.streams.get(execution.id, {"counts": {}, "read": 0})
        over = not self.live(execution.id, call.now)
        return 200, {"streams": record["counts"], "read": record["read"], "over": over}

    # ------------------------------------------------------------------------------------------- reading

    def read_append(self, data: Json) -> Asked:
        asked = Asked(
            fields.identifier(data, "id"),
            read_name(data),
            fields.payload(data, "value"),
            fields.optional_text(data, "key", 256),
            data.get("answer"),
            fields.optional_map(data, "expect"),
        )
        if asked.key == "":
            raise bad("key is empty")
        if asked.answer is not None:
            answer = fields.check_object(asked.answer, "answer")
            fields.integer(answer, "timeoutAt")
            fields.payload(answer, "param")
            if any(name in fields.tags(answer, "tags", "A") for name in NOT_OF_AN_ANSWER):
                raise bad("an answer has no target")
            if answer.get("id") is not None:
                fields.identifier(answer, "id")
        return asked

    def read_next(self, data: Json) -> tuple[str, str, int, bool]:
        stream = read_name(data)
        number = fields.integer(data, "number", 1, 2**53 - 1)
        return fields.identifier(data, "id"), stream, number, fields.flag(data, "peek")

    # ----------------------------------------------------------------------------------------- executions

    def execution(self, execution_id: str) -> Promise:
        if execution_id not in self.tasks:
            raise Refused(404, "no such execution", "HF1401")
        return self.promises[execution_id]

    def record(self, execution: Promise) -> Json:
        """What is known of its streams; it comes into being with the first change."""
        empty: Json = {"id": execution.id, "createdAt": execution.created_at, "counts": {}, "read": 0}
        return self.streams.setdefault(
            execution.id,
            empty | {"sentBytes": 0, "readBytes": 0, "openAnswers": 0, "trimmed": {}, "trimAt": 0},
        )

    def count(self, execution: Promise, stream: str) -> int:
        found: int = self.streams.get(execution.id, {"counts": {}})["counts"].get(stream, 0)
        return found

    def gone(self, execution: Promise, stream: str) -> int:
        """The number up to which its elements were deleted."""
        found: int = self.streams.get(execution.id, {"trimmed": {}})["trimmed"].get(stream, 0)
        return found

    def element(self, execution: Promise, stream: str, number: int) -> str:
        name = f"{below(execution.id)}{stream}.{number}"
        if len(name.encode()) > fields.NAME_BYTES_MAX:
            raise bad("the id of the element is too long")
        return name

    def next_free(self, execution: Promise, stream: str, now: int) -> int:
        """The next number that nobody has written."""
        first = self.count(execution, stream) + 1
        for number in range(first, first + self.SKIPS_MAX + 1):
            name = self.element(execution, stream, number)
            if name not in self.promises or self.live(name, now):
                return number
        raise Refused(409, "others have written the next numbers", "HF1404")

    def check_room(self, execution: Promise, stream: str, number: int) -> None:
        known = self.streams.get(execution.id, {"counts": {}})["counts"]
        if stream not in known and len(known) >= self.STREAMS_MAX:
            raise Refused(409, "too many streams", "HF1405")
        if number - self.gone(execution, stream) > self.ELEMENTS_MAX:
            raise Refused(409, "the stream is full", "HF1404")

    def tags_below(self, execution: Promise) -> dict[str, str]:
        origin = execution.tags.get("resonate:origin", execution.id)
        return {"resonate:origin": origin, "resonate:parent": execution.id}

    def owns(self, fence: Task | None, execution: Promise) -> bool:
        if fence is None:
            return False
        return execution.id in (fence.id, self.promises[fence.id].tags.get("resonate:parent"))

    # ------------------------------------------------------------------------------------------ appending

    def append(self, asked: Asked, fence: Task | None, call: Call) -> Json:
        execution = self.execution(asked.id)
        if asked.stream != "in" and not self.owns(fence, execution):
            raise Refused(409, "only the execution itself appends to this stream", "HF1407")
        if any(execution.tags.get(name) != text for name, text in asked.expect.items()):
            raise Refused(409, "the execution is not as expected", "HF1403")
        key_name = f"{below(asked.id)}{asked.stream}~{asked.key}"
        if asked.key is not None and len(key_name.encode()) > fields.NAME_BYTES_MAX:
            raise bad("the id of the key is too long")
        if asked.key is not None and key_name in self.promises:
            return self.appended_before(asked, self.promises[key_name], call)
        if not self.live(asked.id, call.now):
            raise Refused(409, "the execution is over", "HF1402")
        number = self.next_free(execution, asked.stream, call.now)
        name = self.element(execution, asked.stream, number)
        answer = None if asked.answer is None else self.check_answer(asked.answer, execution, name)
        asked.value = self.with_answer(asked.value, answer)
        if asked.key is not None and name in self.promises:
            given: Json = asked.value.get("headers") or {}
            asked.value = {**asked.value, "headers": {**given, "holdfast:key": asked.key}}
        size = value_chars(asked.value) + 256
        self.check_room(execution, asked.stream, number)
        self.check_mailbox(execution, asked.stream, number, size)
        return self.write_element(asked, execution, number, size, name, key_name, answer, call)

    def with_answer(self, value: Json, answer: str | None) -> Json:
        """A question says where its answer is wanted, and nothing else does."""
        given: Json = value.get("headers") or {}
        kept = {name: text for name, text in given.items() if name != ANSWER_TAG}
        kept |= {} if answer is None else {ANSWER_TAG: answer}
        if kept == given:
            return value
        plain = {name: part for name, part in value.items() if name != "headers"}
        return {**plain, "headers": kept} if kept else plain

    def check_mailbox(self, execution: Promise, stream: str, number: int, size: int) -> None:
        known = self.streams.get(execution.id, {"read": 0, "sentBytes": 0, "readBytes": 0})
        if stream == "in" and (
            number - known["read"] > self.UNREAD_MAX
            or known["sentBytes"] - known["readBytes"] + size > self.UNREAD_CHARS_MAX
        ):
            raise Refused(409, "the mailbox is full", "HF1404")

    def check_answer(self, answer: Json, execution: Promise, element: str) -> str:
        if self.streams.get(execution.id, {"openAnswers": 0})["openAnswers"] >= self.OPEN_ANSWERS_MAX:
            raise Refused(409, "too many open answers", "HF1406")
        name: str = answer.get("id") or f"{element}.answer"
        if len(name.encode()) > fields.NAME_BYTES_MAX:
            raise bad("the id of the answer is too long")
        if self.created(name) is not None or name == element:
            raise Refused(409, "the promise of the answer exists", "HF1202")
        return name

    def write_element(
        self,
        asked: Asked,
        execution: Promise,
        number: int,
        size: int,
        name: str,
        key_name: str,
        answer: str | None,
        call: Call,
    ) -> Json:
        record = self.record(execution)
        record["counts"] = dict(sorted({**record["counts"], asked.stream: number}.items()))
        total = None
        if asked.stream == "in":
            record["sentBytes"] += size
            total = str(record["sentBytes"])
        tags = self.tags_below(execution) | {"holdfast:stream": asked.stream}
        deadline = execution.timeout_at
        if name not in self.promises:
            self.promises[name] = Promise(name, {}, tags, deadline, call.now, ikc=asked.key)
        self.promises[name].iku = total
        self.settle(self.promises[name], "resolved", asked.value, call.now, call.now)
        shown: Json = {
            "promise": self.show_promise(self.promises[name], call.dialect, call.now),
            "number": number,
        }
        headers = {"holdfast:number": str(number)}
        if answer is not None and asked.answer is not None:
            promise = self.open_answer(answer, asked.answer, name, execution, call)
            shown["answer"] = self.show_promise(promise, call.dialect, call.now)
            headers["holdfast:answer"] = answer
        if asked.key is not None:
            kept = Promise(key_name, {}, tags, deadline, call.now)
            self.promises[key_name] = kept
            self.settle(kept, "resolved", {"headers": headers}, call.now, call.now)
        return shown

    def open_answer(self, name: str, answer: Json, element: str, execution: Promise, call: Call) -> Promise:
        own = fields.tags(answer, "tags", "A") or self.tags_below(execution)
        tags = own | {DEPENDENT_TAG: execution.id, ANSWER_TAG: element}
        deadline = fields.integer(answer, "timeoutAt")
        promise = Promise(name, fields.payload(answer, "param"), tags, deadline, min(call.now, deadline))
        self.put_record(promise)
        if deadline <= call.now:
            promise.state, promise.settled_at = "rejected_timedout", deadline
        else:
            execution.callbacks.append(name)
            self.record(execution)["openAnswers"] += 1
        return promise

    def appended_before(self, asked: Asked, kept: Promise, call: Call) -> Json:
        headers: Json = kept.value.get("headers") or {}
        number = headers.get("holdfast:number", "")
        element = self.promises.get(f"{below(asked.id)}{asked.stream}.{number}")
        if element is None:
            raise Refused(409, "the promise is not the record of a key", "HF1202")
        answer = headers.get("holdfast:answer")
        shown: Json = {
            "promise": self.show_promise(element, call.dialect, call.now),
            "number": int(number),
        }
        if answer is not None:
            shown["answer"] = self.show_promise(self.promises[answer], call.dialect, call.now)
        return shown

    # ------------------------------------------------------------------------------------------- reading

    def next_element(
        self, execution_id: str, stream: str, number: int, peek: bool, fence: Task | None, call: Call
    ) -> Json:
        execution = self.execution(execution_id)
        if number > self.count(execution, stream) + 1:
            raise bad("number is beyond the next element")
        live = self.live(execution_id, call.now)
        awaited: Promise | None = None
        if number > self.count(execution, stream) and not peek:
            if not live:
                raise Refused(409, "the execution is over", "HF1402")
            free = self.next_free(execution, stream, call.now)
            self.check_room(execution, stream, free)
            record = self.record(execution)
            record["counts"] = dict(sorted({**record["counts"], stream: free - 1}.items()))
            if free == number:
                awaited = self.await_element(execution, stream, number, call.now)
        if stream == "in" and fence is not None and fence.id == execution_id:
            self.note_read(execution, number - 1)
        if awaited is None:
            number = max(number, self.gone(execution, stream) + 1)
        promises = (
            [self.show_promise(awaited, call.dialect, call.now)]
            if awaited is not None
            else self.page_of(execution, stream, number, self.PAGE_MAX, call)
        )
        count = self.count(execution, stream)
        return {"promises": promises, "number": number, "count": count, "over": not live}

    def await_element(self, execution: Promise, stream: str, number: int, now: int) -> Promise:
        name = self.element(execution, stream, number)
        if name not in self.promises:
            tags = self.tags_below(execution) | {"holdfast:stream": stream, DEPENDENT_TAG: execution.id}
            self.promises[name] = Promise(name, {}, tags, execution.timeout_at, now)
            execution.callbacks.append(name)
        return self.promises[name]

    def note_read(self, execution: Promise, number: int) -> None:
        """Everything up to this number was read: what is unread is the sum of the rest."""
        record = self.streams.get(execution.id)
        if record is None or number <= record["read"]:
            return
        record["read"] = number
        unread = [
            self.promises[self.element(execution, "in", each)]
            for each in range(number + 1, self.count(execution, "in") + 1)
        ]
        sizes = sum(value_chars(sent_value(message)) + 256 for message in unread if is_message(message))
        record["readBytes"] = record["sentBytes"] - sizes

    def page_of(self, execution: Promise, stream: str, first: int, limit: int, call: Call) -> list[Json]:
        found: list[Json] = []
        size = 0
        last = min(self.count(execution, stream), first + limit - 1)
        for number in range(first, last + 1):
            promise = self.promises.get(self.element(execution, stream, number))
            if promise is None:  # it was read, and is deleted by now
                continue
            size += value_chars(promise.param) + value_chars(promise.value) + len(promise.id) + 256
            size += sum(len(tag) + len(text) for tag, text in promise.tags.items())
            if found and size > self.PAGE_CHARS:
                break
            found.append(self.show_promise(promise, call.dialect, call.now))
        return found


def sent_value(message: Promise) -> Json:
    """Without what an execution adds that bears the id of a message, and has continued."""
    headers = {name: text for name, text in headers_of(message.value).items() if name != GENERATION}
    return {**message.value, "headers": headers}


def is_message(promise: Promise) -> bool:
    """Was it appended, and not written by somebody else? The total says so."""
    return promise.iku is not None and promise.iku.isdecimal()


def read_name(data: Json) -> str:
    name = fields.check_text(data.get("stream"), "stream", fields.NAME_BYTES_MAX)
    if not NAME.fullmatch(name):
        raise bad("stream has no such name")
    return name
