"""How the progress of an execution ends: with a result, or with another generation.

What the code started or cancelled last happens though nobody waits for that. Of a generation that is over
nothing is written which only a replay of it would need, unless its records are kept.
"""

from typing import Final

from holdfast.protocol.generations import begun_id, lies_in_generation
from holdfast.protocol.requests import CreateAction, LockRelease, PromiseSettle, ReleaseAction, SettleAction
from holdfast.workflow.operations import Action, Note
from holdfast.workflow.progress import Progress

many_records: Final = 100


class EndingProgress(Progress):
    @property
    def has_many_records(self) -> bool:
        """Is it shorter to look at what it waits for than to be given all that it has recorded?"""
        return self._count > many_records

    @property
    def has_records(self) -> bool:
        """Has it recorded anything in this generation?"""
        return self._count > 0

    @property
    def is_cancel_awaited(self) -> bool:
        """Is the promise there that asks it to cancel itself, and nobody has asked?"""
        return self.cancel_id in self._journal.records and self._journal.is_pending(self.cancel_id)

    def cancel_called(self) -> bool:
        """Cancel what was called and nobody wants any more. Is there any?"""
        if not self.unwanted:
            return False
        self.unwritten += self.unwanted.take()
        return True

    def end(self) -> tuple[PromiseSettle, Exception | None]:
        """How the execution ends, now that its code has; and what it failed with, unless it was cancelled."""
        self._finish()
        if self._number:
            begun = self.recorder.begun(begun_id(self._root.id, self._number), self._root.value)
            self._write(begun)
        if self.is_cancel_awaited:  # nobody has asked, and nobody will
            self.unwritten.append(SettleAction(PromiseSettle(self.cancel_id, "rejected_canceled")))
        return self.recorder.ending(
            self._scheduler.result,
            self._failures,
            is_cancelled=self.is_cancelled,
            is_late=self.is_out_of_time,
        )

    def end_generation(self, *, keeps_records: bool) -> tuple[list[Action], list[str]]:
        """What is still to be written, now that the code goes on as another generation; and the records that
        nobody needs any more. Unless they are kept, none is written that would be deleted at once."""
        self._finish()
        unwritten = [*self.take_unwritten(), *self._releases()]
        forgotten = [*self._names]
        if self.is_cancelled:
            forgotten.append(self.cancel_id)  # it was seen
        if keeps_records:
            return unwritten, forgotten
        written: list[Action] = []
        unknown = set[str]()  # to the node
        for action in unwritten:
            if (record := self._record_in(action)) is None:
                written.append(action)
            else:
                unknown.add(record)
        own = [
            key
            for key in self._journal.known
            if key not in unknown and lies_in_generation(key, self._root.id, self._number)
        ]
        return written, [*own, *forgotten]

    def _releases(self) -> list[Action]:
        """Of the locks that a generation leaves behind: nothing of the next one knows of them."""
        return [ReleaseAction(LockRelease(name, ticket)) for ticket, name in self.tickets.items()]

    def _record_in(self, action: Action) -> str | None:
        """The id of what it makes, if that is of no use but for a replay."""
        if not isinstance(action, CreateAction) or action.data.settle is None:
            return None
        key = action.data.id
        return key if lies_in_generation(key, self._root.id, self._number) else None

    def _finish(self) -> None:
        """What the code started or cancelled last happens though nobody waits for that."""
        if self.after_drain is not None:
            self.after_drain()
        for promise_id, operation in [*self._open.fresh.items(), *self._open.notes.items()]:
            if not operation.is_effect or self._journal.knows(promise_id):
                continue
            if isinstance(operation, Note):
                self._choose(promise_id, operation, self._journal.last_place + 1)
            else:
                self._create(promise_id, operation)
        self.cancel_called()
