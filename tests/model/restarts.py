"""The oracle's generations: an execution that goes on under its id, as protocol.md tells of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.model import fields
from tests.model.fields import Json, bad
from tests.model.machine import GENERATION, Promise, Task, generation, headers_of
from tests.model.streams import DEPENDENT_TAG, StreamMachine, below

if TYPE_CHECKING:
    from tests.model.oracle import Answer, Call

KEEP_MS = 600_000  # a message that was read stays so long
TRIM_MOST = 32
FORGET_MOST = 10_000


class RestartMachine(StreamMachine):
    def held_task(self, data: Json, call: Call, *, of_generation: bool = False) -> Task:
        raise NotImplementedError

    def task_or_404(self, task_id: str) -> Task:
        raise NotImplementedError

    def task_restart(self, data: Json, call: Call) -> Answer:
        task_id, version = fields.identifier(data, "id"), fields.integer(data, "version")
        ended = fields.integer(data, "generation", 0, 2**53 - 2) if "generation" in data else 0
        read = fields.integer(data, "read") if "read" in data else 0
        param = fields.payload(data, "param")
        forget = [
            fields.identifier({"it": each}, "it")
            for each in (fields.items(data, "forget", 0, FORGET_MOST) if "forget" in data else ())
        ]
        task = self.task_or_404(task_id)
        promise = self.promises[task_id]
        held = task.state == "acquired" and task.version == version and self.live(task_id, call.now)
        if held and generation(promise)["number"] == ended + 1:
            return 200, {"promise": self.show_promise(promise, call.dialect, call.now)}
        self.held_task(data, call, of_generation=True)
        count = self.count(promise, "in")
        if not generation(promise)["read"] <= read <= count:
            raise bad("read is not within the mailbox")
        for record_id in dict.fromkeys(forget):
            self.forget_record(record_id, promise, call.now)
        if task_id in self.streams:
            self.note_read(promise, read)
            self.trim(promise, read, call.now)
        now_in: Json = {"number": ended + 1} | ({"read": read} if read else {})
        text = json.dumps(now_in, separators=(",", ":"))
        promise.value = {**param, "headers": {**(param.get("headers") or {}), GENERATION: text}}
        task.woken_by = task.retries = task.error = None
        task.bounces = task.crashes = 0
        task.progress = []
        return 200, {"promise": self.show_promise(promise, call.dialect, call.now)}

    def forget_record(self, record_id: str, execution: Promise, now: int) -> None:
        record = self.promises.get(record_id)
        if record is None or record_id == execution.id or record_id in self.tasks:
            return
        inside = record_id.startswith(execution.id) and record_id[len(execution.id)] in ":."
        own = record.tags.get("resonate:parent") == execution.id
        kept = "holdfast:stream" in record.tags or record.tags.get(DEPENDENT_TAG) == execution.id
        if not inside or not own or kept:
            return
        if record.state == "pending":
            over: Json = {"headers": {"holdfast-code": "HF1402"}}
            self.settle(record, "rejected_canceled", over, now, now)
        del self.promises[record_id]
        self.keep_version(record)

    def trim(self, execution: Promise, read: int, now: int) -> None:
        """What was read, and what was published before the last value, goes when it is old."""
        record = self.streams[execution.id]
        ends = {name: count - 1 for name, count in record["counts"].items() if name.startswith("value.")}
        ends["in"] = read
        ends = {name: end for name, end in ends.items() if end > record["trimmed"].get(name, 0)}
        if not ends or now < record["trimAt"]:
            return
        instants = [now + KEEP_MS]
        for stream in sorted(ends):
            last, again_at = self.trim_stream(execution, stream, ends[stream], now)
            record["trimmed"] = {**record["trimmed"], stream: last}
            instants.append(again_at)
        record["trimAt"] = min(instants)

    def trim_stream(self, execution: Promise, stream: str, end: int, now: int) -> tuple[int, int]:
        first = self.gone(execution, stream) + 1
        last = min(end, first + TRIM_MOST - 1)
        for number in range(first, last + 1):
            name = f"{below(execution.id)}{stream}.{number}"
            element = self.promises.get(name)
            if element is None:
                continue
            if (element.settled_at or 0) + KEEP_MS > now:
                return number - 1, (element.settled_at or 0) + KEEP_MS
            headers: Json = element.value.get("headers") or {}
            answer = headers.get("holdfast:answer")
            keys = sorted({key for key in (element.ikc, headers.get("holdfast:key")) if key is not None})
            beside = [f"{below(execution.id)}{stream}~{key}" for key in keys]
            place = len(execution.id)
            if answer is not None and answer.startswith(execution.id) and answer[place : place + 1] in ":.":
                beside.append(answer)
            if stream == "in":
                beside.append(f"{name}.aside")
            found = [self.promises[each] for each in beside if each in self.promises]
            found = [each for each in found if is_beside(each, name, number)]
            if any(each.state == "pending" for each in found):
                return number - 1, now + KEEP_MS
            for each in (element, *found):
                if each.tags.get("resonate:parent") == execution.id and each.id not in self.tasks:
                    self.promises.pop(each.id, None)
                    self.keep_version(each)
        return last, now if last < end else now + KEEP_MS


def is_beside(record: Promise, element: str, number: int) -> bool:
    """Somebody else may have written under that number, and have named the key or the answer of another."""
    named = headers_of(record.value).get("holdfast:number")
    if named is not None:
        return named == str(number)
    return record.id == f"{element}.aside" or record.tags.get("holdfast:answer") == element
