"""The preload of a claim: the other promises of its branch, which its worker is about to ask for.

An answer has room for so many bytes of them, and so has a commit. Where they do not fit, the answer has a
cursor: the id after which `promise.search` goes on. A promise that is not preloaded may be there all the
same.
"""

from holdfast.engine.view import see_promise
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.records import Millis, Promise
from holdfast.protocol.sizes import fitting, whole_promise_bytes


class Room:
    """The bytes that are left for preloads in one answer."""

    def __init__(self) -> None:
        self._left = limits.preload_bytes_max

    @property
    def is_full(self) -> bool:
        return self._left <= 0

    def take(self, promises: list[Promise]) -> tuple[list[Promise], str | None]:
        """The first of them, as many as fit; and the cursor, if that is not all."""
        sizes = [*map(whole_promise_bytes, promises)]
        count = fitting(sizes, self._left)
        if count == len(promises):
            self._left -= sum(sizes)
            return promises, None
        self._left = 0
        return promises[:count], promises[count - 1].id if count else ""


def preload(
    promise: Promise, ws: WorkingSet, now: Millis, room: Room | None = None
) -> tuple[list[Promise], str | None]:
    """A job is not replayed, so it needs nothing."""
    branch = promise.tags.get(tags.BRANCH)
    if branch is None or tags.JOB in promise.tags:
        return [], None
    room = room or Room()
    if room.is_full or not ws.has_room_for_answers:
        return [], ""
    members, end = ws.branch(branch)
    shown, cursor = room.take([see_promise(other, ws, now) for other in members if other.id != promise.id])
    ws.note_answer(sum(map(whole_promise_bytes, shown)))
    return shown, end if cursor is None else cursor
