"""What an execution has recorded, and in which order it saw it.

The n-th operation of an execution always has the same id, so a record is found by asking for it. Which of
several outstanding operations completed first is a choice that the code went on from, so it is recorded too:
each completion has a *place*.

1. A step, a note and everything else that finishes here carries its place in the same write as its result.
2. A completion from outside has no place of its own. If it was the only one outstanding, its place is forced
   and nothing is written. Otherwise an *observation*, a record that names it, is written before the first
   effect that follows.
3. Replay feeds completions by place. What has no recorded place had no consequence yet, and may be chosen
   anew.
4. An operation that could not be created has a *refusal* instead: a record beside it, with a place.
5. A cancellation is seen once, after so many completions: a record says after how many. A number and not a
   place, because forced completions have none and it must not move past them.
6. What completes an operation may belong to somebody else, who may delete it (`attach`). Then the outcome is
   recorded here, with its place.
7. Messages are completions from outside. They have ids of their own, and are read by pages.
8. A step that was put off has records beside it that count its attempts (protocol/failures.py). The code sees
   nothing of them, so they have no place.
"""

from collections.abc import Callable, Sequence
from typing import Final

from holdfast.protocol.failures import AGAIN, Tried, step_of
from holdfast.protocol.ids import below as below, child_id as child_id
from holdfast.protocol.operations import (
    AFTER as AFTER,
    ARGUMENTS as ARGUMENTS,
    LABEL as LABEL,
    OBSERVED as OBSERVED,
    PLACE as PLACE,
    RAN as RAN,
    cancel_id as cancel_id,
)
from holdfast.protocol.records import Promise
from holdfast.protocol.streams import MAILBOX, aside_id as aside_id
from holdfast.workflow.errors import ReplayMismatch

_refused: Final = "~no"


def observation_id(root: str, place: int) -> str:
    """Beside the counter ids, where no operation can be: its number is not one."""
    return child_id(root, 0) + f"~{place}"


def mark_id(promise_id: str) -> str:
    """Beside a call, which belongs to the execution that answers it and is not preloaded with ours."""
    return f"{promise_id}~"


def refusal_id(promise_id: str) -> str:
    """Beside an operation that could not be created."""
    return f"{promise_id}{_refused}"


def cancellation_id(root: str) -> str:
    """The record that it was seen."""
    return child_id(root, 0) + "~cancel"


class Journal:
    """The records of one execution, by id, the order of its completions, and how far the code has seen it."""

    def __init__(self, root: str, base: str | None = None) -> None:
        """`base`: below which its records lie, if that is not the execution itself (generations.py)."""
        self.records: dict[str, Promise] = {}
        self.refusals: dict[str, Promise] = {}  # by the id of what could not be created
        self.put_off: dict[str, Promise] = {}  # by the id of a step: the last record that counts its attempts
        self.place = 1  # of the next completion
        self.last_place = 0  # that is recorded
        self.highest = 0  # the number of the last operation recorded before
        self.canceled_after: int | None = None  # so many completions
        self._root = base or root
        self._prefix = below(self._root)
        self._mailbox = f"{below(root)}{MAILBOX}."
        self.order: dict[int, str] = {}  # of completions, by place

    def read(self, records: Sequence[Promise]) -> None:
        """What was recorded before."""
        for record in records:
            self.add(record)
            number = record.id[len(self._prefix) :].partition("~")[0]
            if number.isdigit() and record.id.startswith(self._prefix):
                self.highest = max(self.highest, int(number))

    def add(self, record: Promise) -> None:
        """What is learnt later is about operations that the code has asked for."""
        if record.state == "pending" and record.id in self.records:
            return  # a late answer knows less than we do: what has settled stays so
        self.records[record.id] = record
        if AGAIN in record.id:
            self._count_attempts(record)
        headers = record.value.headers
        if headers is None:
            return
        if PLACE in headers:
            self._set_place(int(headers[PLACE]), headers.get(OBSERVED, record.id))
            if _refused in record.id and record.id.endswith(_refused):
                self.refusals[record.id.removesuffix(_refused)] = record
        elif AFTER in headers:
            self.canceled_after = int(headers[AFTER])

    def _count_attempts(self, record: Promise) -> None:
        tried, step = Tried.of(record), step_of(record.id)
        if tried is not None and step is not None:
            last = self.tried(step)
            if last is None or tried.attempts >= last.attempts:
                self.put_off[step] = record

    def tried(self, step: str) -> Tried | None:
        """The attempts at a step that are recorded, if there are any."""
        record = self.put_off.get(step)
        return None if record is None else Tried.of(record)

    # --- the order -------------------------------------------------------------------------------------

    @property
    def next(self) -> str | None:
        """What was recorded as the next completion."""
        return self.order.get(self.place)

    def free_place(self) -> int:
        """The first place, from the next one on, that no completion has."""
        place = self.place
        while place in self.order:
            place += 1
        return place

    def observe(self, promise_id: str) -> None:
        """This is the next completion, from now on."""
        self._set_place(self.place, promise_id)

    def _set_place(self, place: int, promise_id: str) -> None:
        self.order[place] = promise_id
        if place > self.last_place:
            self.last_place = place

    def is_led(self, count: int) -> bool:
        """Is there more that was recorded, for code that has asked for so many operations?"""
        return self.place in self.order or self.highest > count

    # --- the records -----------------------------------------------------------------------------------

    def is_pending(self, promise_id: str) -> bool:
        """It has not settled, as far as is known here."""
        record = self.records.get(promise_id)
        return record is None or record.state == "pending"

    def elsewhere(self) -> list[str]:
        """Calls and observed promises that are known only by name, besides messages."""
        called = (key[:-1] for key in self.records if key.endswith("~"))
        known = self.records.keys() | self.refusals.keys()
        wanted = [key for key in dict.fromkeys([*called, *self.order.values()]) if key not in known]
        return [key for key in wanted if not key.startswith(self._mailbox)]  # which is read by pages

    def knows(self, promise_id: str) -> bool:
        return promise_id in self.records or promise_id in self.refusals

    @property
    def known(self) -> list[str]:
        """The ids of all that was recorded."""
        return [*self.records]

    def forget(self, promise_id: str) -> None:
        """It was seen, and is not asked for again."""
        self.records.pop(promise_id, None)

    def took(self, label: str, number: int) -> bool | None:
        """Is this what was recorded as the n-th operation? None: nothing was recorded from there on."""
        key = child_id(self._root, number)
        record = self.refusals.get(key) or self.records.get(key)
        if record is not None and (record.param.headers or {}).get(LABEL) == label:
            return True
        return False if self.highest >= number else None

    # --- comparing -------------------------------------------------------------------------------------

    def unasked(
        self,
        count: int,
        now: Callable[[], str],
        *,
        is_open: Callable[[str], bool],
        ended: bool,
        seen: int | None = None,
    ) -> ReplayMismatch | None:
        """Before anything is begun: has the code asked for all that was recorded? If not, what is amiss.

        `seen` completions, if it has not been cancelled. `is_open`: what it has asked for, and may still have
        to be read. `now` says where the code is instead.
        """
        if seen is not None and self.canceled_after is not None and self.canceled_after > seen:
            then = f"{self._root} was cancelled after {self.canceled_after} completions"
            return ReplayMismatch(f"{then}; {now()} after {seen}")
        missing = None if ended else self.next
        if missing is not None and is_open(missing):
            return None
        if self.highest > count and (ended or missing is not None):
            missing = self._first_after(count)
        if missing is None:
            return None
        return ReplayMismatch(f"{missing} was recorded as {self._label(missing)!r} and is next; {now()}")

    def _first_after(self, count: int) -> str:
        """The first recorded operation that the code has not asked for."""
        ids = (child_id(self._root, number) for number in range(count + 1, self.highest))
        return next((key for key in ids if self._label(key)), child_id(self._root, self.highest))

    def _label(self, promise_id: str) -> str:
        ids = (refusal_id(promise_id), promise_id, mark_id(promise_id))
        record = next((self.records[key] for key in ids if key in self.records), None)
        if promise_id.startswith(self._mailbox):
            return "message"
        return "" if record is None else (record.param.headers or {}).get(LABEL, "")

    def check(
        self, promise_id: str, label: str, digest: str | None, where: object, given: Callable[[Promise], str]
    ) -> ReplayMismatch | None:
        """How what is recorded under this id differs from what the code asks for now.

        `given` says of a record how its arguments differ.
        """
        record = self.refusals.get(promise_id) or self.records[promise_id]
        headers = record.param.headers or {}
        recorded, fingerprint = headers.get(LABEL), headers.get(ARGUMENTS)
        if recorded is None:  # somebody else's, who used our id: nothing is recorded here
            del self.records[promise_id]
        elif recorded != label:
            return ReplayMismatch(
                f"{promise_id} was recorded as {recorded!r}; the code now asks for {label!r} there ({where})"
            )
        elif fingerprint is not None and digest is not None and fingerprint != digest:
            return ReplayMismatch(f"{promise_id} ({label!r}) {given(record)} ({where})")
        return None
