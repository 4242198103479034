"""The oracle's executions that are started under a taken id, cancelled, retried and forked.

Part of the oracle, so it shares nothing with the product; protocol.md tells the rules. It walks over
everything that is stored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.model import fields
from tests.model.fields import INSTANT_MAX, Json, Refused, bad
from tests.model.machine import NEXT_VERSION, SUPERSEDED, Promise, Task, generation, is_kept, leave_lease
from tests.model.streams import StreamMachine, below, value_chars

if TYPE_CHECKING:
    from tests.model.oracle import Answer, Call

ON_EXISTING = ("return", "reject", "again_if_failed", "replace")
MESSAGE_CHARS = 256
CALLED_DEPTH = 32


@dataclass(slots=True)
class Point:
    place: int
    asked: int
    operation: str


class MendingMachine(StreamMachine):
    # ----------------------------------------------------------------------------------------- requests

    def execution_cancel(self, data: Json, call: Call) -> Answer:
        promise_id, at_once = fields.identifier(data, "id"), bool(fields.flag(data, "now"))
        if promise_id not in self.promises:
            raise Refused(404, "no such execution", "HF1401")
        promise, task = self.promises[promise_id], self.tasks.get(promise_id)
        if promise.state == "pending" and is_kept(promise):
            raise bad("a record of the node's is not settled")
        state = self.state_at(promise, call.now)
        if state in ("pending", "rejected_canceled"):
            if state == "pending" and task is not None and not at_once:
                self.ask_to_cancel(promise, call.now)
            else:
                if at_once:
                    self.end_called(promise_id, call.now)
                if state == "pending":
                    self.settle(promise, "rejected_canceled", {}, call.now, call.now)
        return 200, {"promise": self.show_promise(promise, call.dialect, call.now)}

    def execution_retry(self, data: Json, call: Call) -> Answer:
        execution_id = fields.identifier(data, "id")
        timeout_at = fields.optional_integer(data, "timeoutAt")
        promise = self.mendable(execution_id)
        state = self.state_at(promise, call.now)
        if state == "pending":
            return 200, {"promise": self.show_promise(promise, call.dialect, call.now)}
        if timeout_at is not None and timeout_at <= call.now:
            raise bad("timeoutAt must be in the future")
        if state == "resolved":
            raise Refused(409, "it has completed", "HF1702")
        self.check_uncalled(promise)
        again: list[tuple[Promise, int]] = []
        gone: list[str] = []
        unplaced: list[Promise] = []
        longer: list[tuple[Promise, int]] = []
        notes: list[tuple[str, str]] = []
        deadline = self.as_long_again(promise, call.now)
        if timeout_at is not None:
            deadline = with_grace(timeout_at, promise)
        self.plan(promise, deadline, call.now, again, gone, unplaced, longer, notes)
        for ended, _ in again:
            self.write_end(ended, call.now)
        for name in gone:
            self.write_end(self.promises[name], call.now)
            if self.promises[name].state == "pending":
                self.settle(self.promises[name], "rejected_canceled", {}, call.now, call.now)
            self.delete_record(name)
        for record in unplaced:
            headers = {key: text for key, text in record.value["headers"].items() if key != "holdfast:place"}
            record.value = {key: each for key, each in record.value.items() if key != "headers"}
            if headers:
                record.value["headers"] = headers
        for record, until in longer:
            record.timeout_at = until
        for ended, _ in again:
            self.reopen_streams(ended, [name for owner, name in notes if owner == ended.id])
        for ended, until in again:
            self.begin_again(ended, until, call.now)
        return 200, {"promise": self.show_promise(promise, call.dialect, call.now)}

    def empty_streams(self, name: str, created_at: int) -> None:
        if name in self.streams:
            nothing: Json = {"counts": {}, "read": 0, "sentBytes": 0, "readBytes": 0, "openAnswers": 0}
            nothing |= {"trimmed": {}, "trimAt": 0}
            self.streams[name] = {"id": name, "createdAt": created_at} | nothing

    def superseded(self, promise_id: str) -> int:
        """What is only kept for its version is gone: answers with the next one, or 0."""
        promise = self.promises.get(promise_id)
        if promise is None or promise.value != SUPERSEDED:
            return 0
        if promise_id in self.tasks:
            version = self.tasks[promise_id].version + 1
        else:
            version = int(promise.tags[NEXT_VERSION])
        self.delete(promise_id)
        return version

    def delete_record(self, name: str) -> None:
        promise = self.promises[name]
        self.delete(name)
        self.keep_version(promise)

    def execution_start(self, new: Promise, delay: int | None, on_existing: str, call: Call) -> Promise:
        version = self.superseded(new.id)
        existing, task = self.promises.get(new.id), self.tasks.get(new.id)
        if existing is None:
            self.add(new, call.dialect, call.now, delay, version)
            return new
        state = self.state_at(existing, call.now)
        if new.ikc is not None and new.ikc == existing.ikc:
            return existing
        if on_existing == "reject":
            raise Refused(409, "the id is taken", "HF1701")
        failed = state not in ("pending", "resolved")
        if on_existing == "return" or (on_existing == "again_if_failed" and not failed):
            return existing
        if task is None:
            raise Refused(409, "the id is taken", "HF1701")
        self.check_uncalled(existing)
        if new.timeout_at <= call.now:
            raise bad("timeoutAt must be in the future")
        version = task.version
        beneath = sorted(
            name for name in self.promises if name[: len(new.id) + 1] in (new.id + ":", new.id + ".")
        )
        for name in (new.id, *beneath):
            self.write_end(self.promises[name], call.now)
            if self.promises[name].state == "pending":
                self.settle(self.promises[name], "rejected_canceled", {}, call.now, call.now)
        for name in beneath:
            if name in self.tasks:
                self.promises[name].state = "rejected_canceled"
                self.promises[name].value = SUPERSEDED
                self.empty_streams(name, self.promises[name].created_at)
            else:
                self.delete_record(name)
        del self.promises[new.id], self.tasks[new.id]
        self.empty_streams(new.id, new.created_at)
        self.add(new, call.dialect, call.now, delay, version=version + 1)
        return new

    def execution_fork(self, data: Json, call: Call) -> Answer:
        source_id, new_id = fields.identifier(data, "id"), fields.identifier(data, "newId")
        before = fields.identifier(data, "before")
        timeout_at = fields.optional_integer(data, "timeoutAt")
        param = fields.payload(data, "param") if data.get("param") is not None else None
        if source_id == new_id:
            raise bad("newId must be another id")
        source = self.mendable(source_id)
        existing = self.promises.get(new_id)
        if existing is not None:
            is_same = existing.tags.get("holdfast:fork-of") == source_id
            is_same = is_same and existing.tags.get("holdfast:fork-before") in (None, before)
            if not is_same or (param is None and existing.param != source.param):
                raise Refused(409, "the id is taken", "HF1701")
            return 200, {"promise": self.show_promise(existing, call.dialect, call.now)}
        if timeout_at is not None and timeout_at <= call.now:
            raise bad("timeoutAt must be in the future")
        deadline = self.as_long_again(source, call.now)
        if timeout_at is not None:
            deadline = with_grace(timeout_at, source)
        self.check_first_generation(source)
        records = self.records(source_id)
        named = [
            record
            for record in records
            if self.number(record, source_id)
            and label(record)
            and before in (record.id.rstrip("~"), label(record), label(record).partition(" ")[2])
        ]
        if not named:
            raise Refused(404, "no such operation", "HF1707")
        cut = min(named, key=lambda record: (self.number(record, source_id), record.id))
        copies = self.copies(source_id, records, cut, call.now)
        copied = {each.id for each in copies}
        self.check_locks([each for each in records if each.id in copied])
        messages, published = self.spoken(source, began_at(cut))
        names = [below(new_id) + record.id[len(below(source_id)) :] for record in copies]
        names += [f"{below(new_id)}in.{n}" for n in range(1, len(messages) + 1)]
        names += [f"{below(new_id)}{stream}.1" for stream in published]
        if any(name in self.promises for name in names):
            raise Refused(409, "the id is taken", "HF1701")
        self.write_fork(source, new_id, before, param, deadline, copies, messages, published, call)
        return 200, {"promise": self.show_promise(self.promises[new_id], call.dialect, call.now)}

    # -------------------------------------------------------------------------------------- what is there

    def mendable(self, execution_id: str) -> Promise:
        promise = self.execution(execution_id)
        if promise.value == SUPERSEDED:
            raise Refused(404, "no such execution", "HF1401")
        return promise

    def state_at(self, promise: Promise, now: int) -> str:
        if promise.state == "pending" and promise.timeout_at <= now:
            return promise.state_at_timeout
        return promise.state

    def settled_at(self, promise: Promise) -> int:
        return promise.timeout_at if promise.settled_at is None else promise.settled_at

    def check_uncalled(self, promise: Promise) -> None:
        parent = promise.tags.get("resonate:parent", promise.id)
        if parent != promise.id and not label(promise).startswith("start "):
            raise Refused(409, "somebody has called it", "HF1703")

    def records(self, execution_id: str) -> list[Promise]:
        """What an execution has recorded, by id, without its streams and what its calls have recorded."""
        prefix = below(execution_id)
        found: list[Promise] = []
        for name in sorted(self.promises):
            promise = self.promises[name]
            if not name.startswith(prefix) or promise.tags.get("resonate:parent") != execution_id:
                continue
            first, dot, _ = name[len(prefix) :].partition(".")
            if dot and first.isascii() and first.isdigit():
                continue
            if promise.value == SUPERSEDED:
                continue
            if "holdfast:stream" not in promise.tags and "holdfast:dependent" not in promise.tags:
                found.append(promise)
        return found

    def number(self, record: Promise, execution_id: str) -> int | None:
        return digits(record.id[len(below(execution_id)) :].partition("~")[0])

    def as_long_again(self, promise: Promise, now: int) -> int:
        if promise.timeout_at >= INSTANT_MAX:
            return INSTANT_MAX
        return min(INSTANT_MAX, now + max(1, promise.timeout_at - promise.created_at))

    # --------------------------------------------------------------------------------------------- cancel

    def ask_to_cancel(self, promise: Promise, now: int) -> None:
        name = f"{below(promise.id)}cancel"
        asked = self.promises.get(name)
        if asked is None:
            origin = promise.tags.get("resonate:origin", promise.id)
            lineage = {
                "resonate:origin": origin,
                "resonate:branch": promise.id,
                "resonate:parent": promise.id,
            }
            tags = {**lineage, "resonate:scope": "global"}
            asked = Promise(name, {"headers": {"holdfast:op": "cancel"}}, tags, promise.timeout_at, now)
            self.promises[name] = asked
        if self.live(name, now):
            if promise.id not in asked.callbacks:
                asked.callbacks.append(promise.id)
            self.settle(asked, "resolved", {}, now, now)

    def end_called(self, execution_id: str, now: int) -> None:
        """The innermost first."""
        levels = [[execution_id]]
        while levels[-1] and len(levels) <= CALLED_DEPTH:
            known = {name for level in levels for name in level}
            found = {name for caller in levels[-1] for name in self.tasks if self.has_called(caller, name)}
            levels.append(sorted(found - known))
        deepest = levels[-1] if len(levels) > CALLED_DEPTH else []
        asked = [name for name in deepest if any(self.may_have_called(name, other) for other in self.tasks)]
        for level in reversed(levels[1:]):
            for name in level:
                if self.live(name, now) and name in asked:
                    self.ask_to_cancel(self.promises[name], now)
                elif self.live(name, now):
                    self.settle(self.promises[name], "rejected_canceled", {}, now, now)

    def may_have_called(self, caller: str, name: str) -> bool:
        is_within = name[: len(caller) + 1] in (f"{caller}:", f"{caller}.")
        is_awaited = name != caller and caller in self.promises[name].callbacks
        return self.tasks[name].state != "fulfilled" and (is_within or is_awaited)

    def has_called(self, caller: str, name: str) -> bool:
        promise = self.promises[name]
        if not self.may_have_called(caller, name):
            return False
        is_within = name[: len(caller) + 1] in (f"{caller}:", f"{caller}.")
        if is_within and promise.tags.get("resonate:parent") == caller and label(promise).startswith("call "):
            return True
        operation = promise.tags.get("holdfast:caller", "")
        number = re.fullmatch(rf"{re.escape(below(caller))}(g[0-9]+\.)?[0-9]+", operation)
        return number is not None and caller in promise.callbacks and self.created(operation) is None

    # ---------------------------------------------------------------------------------------------- retry

    def plan(
        self,
        promise: Promise,
        deadline: int,
        now: int,
        again: list[tuple[Promise, int]],
        gone: list[str],
        unplaced: list[Promise],
        longer: list[tuple[Promise, int]],
        notes: list[tuple[str, str]],
    ) -> None:
        """What is to be done for one execution that begins again, and for what it called."""
        self.check_first_generation(promise)
        again.append((promise, deadline))
        records, point = self.records(promise.id), read_point(promise)
        for record in records:
            number, place = self.number(record, promise.id), place_of(record)
            state = self.state_at(record, now)
            repeat = False
            if record.id == f"{below(promise.id)}cancel":
                gone.append(record.id)
                continue
            if point is None:
                with_it = state == "rejected_timedout" and record.timeout_at >= promise.timeout_at
                cancelled = state == promise.state == "rejected_canceled" and "resonate:target" in record.tags
                repeat = with_it or (cancelled and self.settled_at(record) >= self.settled_at(promise))
            elif record.id == f"{below(promise.id)}0~cancel":
                if not point.operation:
                    gone.append(record.id)
                continue
            elif number is not None and number > point.asked:
                if not label(record).startswith("note "):
                    raise Refused(409, "it did more", "HF1704")
                gone.append(record.id)
                notes.append((promise.id, record.id))
                continue
            elif place is not None:
                if place >= point.place and label(record).startswith("step ") and record.state == "resolved":
                    unplaced.append(record)
                elif place >= point.place:
                    gone.append(record.id)
                continue
            elif record.id == point.operation and record.timer:
                gone.append(record.id)
                continue
            elif label(record) and state not in ("pending", "resolved"):
                if not self.failed_late(record, promise, point, records, now):
                    continue
                repeat = True
            if repeat and record.id not in self.tasks:
                gone.append(record.id)
            elif repeat:
                until = min(deadline, self.as_long_again(record, now))
                self.plan(record, until, now, again, gone, unplaced, longer, notes)
            elif (
                self.live(record.id, now)
                and record.timeout_at == promise.timeout_at
                and "resonate:target" not in record.tags
            ):
                longer.append((record, deadline))
        gone += [
            each.id
            for each in records
            if each.id.rpartition("~again.")[0] in gone and each.id.rpartition("~again.")[2].isdigit()
        ]
        self.check_locks([each for each in records if each.id not in gone])

    def check_first_generation(self, promise: Promise) -> None:
        if generation(promise, ended=True)["number"]:
            raise Refused(409, "it has continued as new", "HF1708")

    def check_locks(self, records: list[Promise]) -> None:
        """Whoever has ended holds nothing."""
        for name in {each.tags["holdfast:ticket"] for each in records if "holdfast:ticket" in each.tags}:
            held = sum(
                each.tags.get("holdfast:ticket") == name and each.state == "resolved" for each in records
            )
            if held > sum(label(each) == f"note release {name}" for each in records):
                raise Refused(409, "it held a lock", "HF1704")

    def failed_late(
        self, record: Promise, root: Promise, point: Point, records: list[Promise], now: int
    ) -> bool:
        if record.id == point.operation:
            return True
        for other in records:
            if header(other.value, "holdfast:observed") == record.id:
                place = place_of(other)
                if place is not None:
                    return place >= point.place
                break
        causes = [other for other in records if other.id == point.operation] or [root]
        instant = self.settled_at(causes[0]) if self.state_at(causes[0], now) != "pending" else 0
        settled = self.settled_at(record)
        return settled > instant or (settled == instant and self.state_at(record, now) == "rejected_canceled")

    def write_end(self, promise: Promise, now: int) -> None:
        if promise.state == "pending" and promise.timeout_at <= now:
            self.settle(promise, promise.state_at_timeout, {}, promise.timeout_at, now)

    def delete(self, name: str) -> None:
        del self.promises[name]
        self.tasks.pop(name, None)
        self.streams.pop(name, None)
        for promise in self.promises.values():
            if name in promise.callbacks:
                promise.callbacks.remove(name)

    def begin_again(self, promise: Promise, deadline: int, now: int) -> None:
        task = self.tasks[promise.id]
        promise.state, promise.value, promise.timeout_at = "pending", {}, deadline
        promise.settled_at = promise.iku = None
        fresh = Task(task.id, task.target, task.dialect, version=task.version + 1, lost=task.lost)
        leave_lease(fresh)
        self.tasks[promise.id] = fresh
        self.set_deadline(promise, now)
        self.enter_pending(fresh, now)

    def reopen_streams(self, execution: Promise, notes: list[str]) -> None:
        record = self.streams.get(execution.id)
        if record is None or record["createdAt"] != execution.created_at:
            return
        names = [f"{below(execution.id)}{stream}.{count + 1}" for stream, count in record["counts"].items()]
        names += [f"{below(execution.id)}{stream}~{note}" for stream in record["counts"] for note in notes]
        for name in names:
            promise = self.promises.get(name)
            if (
                promise is not None
                and promise.state != "pending"
                and promise.tags.get("resonate:parent") == execution.id
                and "holdfast:stream" in promise.tags
            ):
                self.delete_record(name)
        record["openAnswers"] = 0

    # ----------------------------------------------------------------------------------------------- fork

    def copies(self, source_id: str, records: list[Promise], cut: Promise, now: int) -> list[Promise]:
        """The records that the new execution has, as they are to be there."""
        last = self.number(cut, source_id)
        assert last is not None
        numbers = {record.id: self.number(record, source_id) for record in records}
        owners: dict[int, int | None] = {}
        for record in records:
            place = place_of(record)
            if place is not None:
                observed = header(record.value, "holdfast:observed")
                owners[place] = numbers[record.id] if observed is None else numbers.get(observed)
        first = 1
        while first in owners and is_before(owners[first], last):
            first += 1
        seen = {
            header(record.value, "holdfast:observed")
            for record in records
            if (place := place_of(record)) is not None and place < first
        }
        found: dict[str, Promise] = {}
        marks: list[Promise] = []
        for record in records:
            state, value = self.state_at(record, now), record.value
            settled = self.settled_at(record)
            if label(record).startswith("start ") and record.created_at <= began_at(cut):
                state, value, settled = "resolved", {}, record.created_at
            if state == "pending" or label(record) == "cancel" or not is_before(numbers[record.id], last):
                continue
            copy = Promise(record.id, record.param, record.tags, 0, 0, None, state, value)
            place = digits(header(value, "holdfast:place") or "")
            own_place = place_of(record)
            if record.id.endswith("~"):
                marks.append(copy)
            elif own_place is not None and own_place < first:
                found[record.id] = copy
            elif own_place is not None:
                if label(record).startswith("step ") and state == "resolved":
                    if place is not None:
                        copy.value = without(value, "holdfast:place")
                    found[record.id] = copy
            elif label(record) and (record.id in seen or settled <= began_at(cut)):
                found[record.id] = copy
        return [*found.values(), *(mark for mark in marks if mark.id[:-1] in found)]

    def spoken(self, source: Promise, until: int) -> tuple[list[Json], dict[str, Json]]:
        record = self.streams.get(source.id)
        if record is None or record["createdAt"] != source.created_at:
            return [], {}
        messages: list[Json] = []
        for number in range(1, record["counts"].get("in", 0) + 1):
            message = self.promises.get(f"{below(source.id)}in.{number}")
            if message is None or message.settled_at is None or message.settled_at > until:
                break
            messages.append(message.value)
        published: dict[str, Json] = {}
        for stream, count in sorted(record["counts"].items()):
            for number in range(count, max(0, count - 256), -1) if stream.startswith("value.") else ():
                element = self.promises.get(f"{below(source.id)}{stream}.{number}")
                if element is not None and element.settled_at is not None and element.settled_at <= until:
                    published[stream] = element.value
                    break
        return messages, published

    def write_fork(
        self,
        source: Promise,
        new_id: str,
        before: str,
        param: Json | None,
        deadline: int,
        copies: list[Promise],
        messages: list[Json],
        published: dict[str, Json],
        call: Call,
    ) -> None:
        lineage = {"resonate:origin": new_id, "resonate:branch": new_id, "resonate:parent": new_id}
        left_out = (
            "resonate:delay", "resonate:schedule", "holdfast:sending", "holdfast:rerun-of", "resonate:prefix",
            "holdfast:run",
        )  # fmt: skip
        tags = {name: text for name, text in source.tags.items() if name not in left_out}
        tags |= {**lineage, "resonate:scope": "global"}
        tags |= {"holdfast:fork-of": source.id, "holdfast:fork-before": before}
        target, dialect = self.tasks[source.id].target, call.dialect
        root = Promise(new_id, source.param if param is None else param, tags, deadline, call.now)
        self.promises[new_id] = root
        self.tasks[new_id] = Task(new_id, target, dialect)
        self.set_deadline(root, call.now)
        for record in copies:
            names = ("resonate:scope", "holdfast:task", "holdfast:workflow")
            kept: dict[str, str] = {name: record.tags[name] for name in names if name in record.tags}
            value, observed = record.value, header(record.value, "holdfast:observed")
            if observed is not None and observed.startswith(below(source.id)):
                moved = below(new_id) + observed[len(below(source.id)) :]
                value = {**value, "headers": {**value["headers"], "holdfast:observed": moved}}
            name = below(new_id) + record.id[len(below(source.id)) :]
            until = call.now if record.state == "rejected_timedout" else deadline
            self.put_settled(name, record.state, record.param, value, {**lineage, **kept}, until, call.now)
        total = 0
        origin = {"resonate:origin": new_id, "resonate:parent": new_id}
        for number, message in enumerate(messages, 1):
            value = without(message, "holdfast:answer")
            total += value_chars(value) + MESSAGE_CHARS
            name, of_stream = f"{below(new_id)}in.{number}", {"holdfast:stream": "in"}
            self.put_settled(
                name, "resolved", {}, value, {**origin, **of_stream}, deadline, call.now, str(total)
            )
        counts = {"in": len(messages)} if messages else {}
        for stream, value in published.items():
            entries = {**origin, "holdfast:stream": stream}
            self.put_settled(f"{below(new_id)}{stream}.1", "resolved", {}, value, entries, deadline, call.now)
            counts[stream] = 1
        if counts:
            self.streams[new_id] = {
                "id": new_id, "createdAt": call.now, "counts": counts, "read": 0, "sentBytes": total,
                "readBytes": 0, "openAnswers": 0, "trimmed": {}, "trimAt": 0,
            }  # fmt: skip
        self.enter_pending(self.tasks[new_id], call.now)

    def put_settled(
        self,
        name: str,
        state: str,
        param: Json,
        value: Json,
        tags: dict[str, str],
        deadline: int,
        now: int,
        iku: str | None = None,
    ) -> None:
        self.promises[name] = Promise(name, param, tags, deadline, now, None, state, value, now, iku)


def header(payload: Json, name: str) -> str | None:
    headers: dict[str, str] = payload.get("headers") or {}
    return headers.get(name)


def without(payload: Json, name: str) -> Json:
    given: dict[str, str] = payload.get("headers") or {}
    headers = {key: text for key, text in given.items() if key != name}
    rest = {key: each for key, each in payload.items() if key != "headers"}
    return rest | ({"headers": headers} if headers else {})


def with_grace(deadline: int, promise: Promise) -> int:
    """It is told by then, and ended after its grace."""
    return min(INSTANT_MAX, deadline + int(promise.tags.get(fields.GRACE, "0")))


def label(promise: Promise) -> str:
    return header(promise.param, "holdfast:op") or ""


def digits(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def place_of(promise: Promise) -> int | None:
    return digits(header(promise.value, "holdfast:place") or "")


def is_before(number: int | None, last: int) -> bool:
    return number is None or number < last


def began_at(record: Promise) -> int:
    words = (header(record.value, "holdfast:ran") or "").split(" ", 3)
    return int(words[0]) if len(words) == 4 else record.created_at


def read_point(promise: Promise) -> Point | None:
    words = (header(promise.value, "holdfast:failed-at") or "").split(" ", 2)
    if len(words) < 3:
        return None
    place, asked = digits(words[0]), digits(words[1])
    return None if place is None or asked is None else Point(place, asked, words[2])
