"""What a reader sees of the records at an instant: promises, tasks, and the preload of a claim.

A promise past its deadline is settled, whatever is stored. So is that of a job whose `good_until` has passed
before it started.

A preload is the other promises of the claim's branch, which its worker is about to ask for. An answer has
room for so many bytes of them, and so has a commit. Where they do not fit, the answer has a cursor: the id
after which `promise.search` goes on. A promise that is not preloaded may be there all the same.
"""

from msgspec.structs import replace

from holdfast.engine.job_state import expired_promise, is_expired, view_job
from holdfast.engine.needed import Footprint, Missing
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.generations import branch_of, with_generation
from holdfast.protocol.jobs import JobStatus
from holdfast.protocol.operations import cancel_id
from holdfast.protocol.records import NOTHING, Halted, Millis, Promise, Task, TaskView
from holdfast.protocol.reported import read_reported
from holdfast.protocol.sizes import fitting, whole_promise_bytes


def promise_of(task: Task, ws: WorkingSet) -> Promise:
    promise = ws.promise(task.id)
    assert promise is not None, f"task {task.id!r} has no promise"
    return promise


def is_live(promise: Promise, now: Millis) -> bool:
    return promise.state == "pending" and promise.timeout_at > now


def view_promise(promise: Promise, now: Millis, task: Task | None = None) -> Promise:
    """`task` is the promise's own, where it can be a job."""
    if promise.state != "pending":
        return promise
    if task is not None and task.job is not None and is_expired(task, now):
        return expired_promise(promise, task)
    return lapse(promise) if promise.timeout_at <= now else promise


def see_promise(promise: Promise, ws: WorkingSet, now: Millis) -> Promise:
    """The same, where all is at hand."""
    return view_promise(promise, now, ws.task(promise.id) if tags.JOB in promise.tags else None)


def lapse(promise: Promise) -> Promise:
    """A promise as its deadline leaves it."""
    state = "resolved" if tags.is_timer(promise.tags) else "rejected_timedout"
    value = promise.value if promise.value is NOTHING else with_generation(NOTHING, promise.value)
    return replace(promise, state=state, value=value, settled_at=promise.timeout_at)


def is_open(task: Task, now: Millis) -> bool:
    """Can anything still happen to this task? A task past its promise's deadline is fulfilled."""
    return (
        task.state != "fulfilled"
        and task.timeout_at > now
        and (task.job is None or not is_expired(task, now))
    )


def view_task(task: Task, now: Millis) -> TaskView:
    if is_open(task, now):
        return show_task(task, now)
    return TaskView(
        task.id,
        "fulfilled",
        task.version,
        0,
        started_at=task.started_at,
        retries=task.retries,
        error=task.error,
        job=view_job(task, now),
        progress=None if task.job is None or task.progress is None else read_reported(task.progress),
    )


def show_task(task: Task, now: Millis = 0) -> TaskView:
    """A task as it is stored."""
    return TaskView(
        task.id,
        task.state,
        task.version,
        task.resumes,
        task.pid,
        task.ttl,
        task.started_at,
        task.retries,
        task.error,
        None if task.job is None else view_job(task, now),
        _halted(task),
        None if task.progress is None else read_reported(task.progress),
    )


def _halted(task: Task) -> Halted | None:
    if task.state != "halted" or task.corr_id is None or task.acquired_at is None:
        return None
    return Halted(task.acquired_at, task.error or "", task.corr_id)


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
    promise: Promise, ws: WorkingSet, now: Millis, room: Room | None = None, *, is_known: bool = False
) -> tuple[list[Promise], str | None]:
    """A job is not replayed, so it needs nothing. What is known is not shown again; the cursor says so."""
    branch = branch_of(promise)
    if branch is None or tags.JOB in promise.tags:
        return [], None
    room = room or Room()
    if is_known or room.is_full or not ws.has_room_for_answers:
        return [], ""
    members, end = ws.branch(branch)
    if branch != promise.tags[tags.BRANCH]:
        members = [*_asked_to_cancel(promise, ws), *members]
    shown, cursor = room.take([see_promise(other, ws, now) for other in members if other.id != promise.id])
    ws.note_answer(sum(map(whole_promise_bytes, shown)))
    return shown, end if cursor is None else cursor


def _asked_to_cancel(promise: Promise, ws: WorkingSet) -> list[Promise]:
    """The request to cancel an execution belongs to no generation: whoever claims it is given that, too."""
    name = cancel_id(promise.id)
    if name not in ws.promises:
        raise Missing(Footprint(views={name}))
    found = ws.promises[name]
    return [] if found is None else [found]


def has_status(view: TaskView, status: JobStatus | None) -> bool:
    """The store goes by what is written; by now a deadline may have made something else of it."""
    return status is None or (view.job is not None and view.job.status == status)
