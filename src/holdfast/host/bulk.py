"""Bulk operations from a program: what `app.find(...).cancel()` and its like give.

The node does the work (`node/bulk.py`); here it is asked for, and looked at.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.client.caller import Caller
from holdfast.client.errors import Refused
from holdfast.client.refusals import known_refusal
from holdfast.jobs.errors import BadOption
from holdfast.payloads.durations import Duration, duration_s
from holdfast.protocol.bulk import (
    NAME,
    PROGRESS,
    BulkAction,
    BulkProgress as Counts,
    BulkSpec,
    bulk_creation,
    count_of,
    is_same_operation,
    read_progress,
    read_spec,
    wanted_by,
)
from holdfast.protocol.executions import ENDED, ExecutionStatus
from holdfast.protocol.replies import (
    CountsReply,
    ExecutionReply,
    PromiseReply,
    StreamReply,
)
from holdfast.protocol.requests import (
    ExecutionGet,
    ExecutionSearch,
    PromiseGet,
    StreamRead,
)
from holdfast.workflow.errors import IdTaken

if TYPE_CHECKING:
    from holdfast.host.bridge import AppBridge


class BulkProgress(Struct, frozen=True):
    """How far a bulk operation has come.

    `skipped`: executions that another one called, which are retried with that one. `left`: None where there
    were more at the start than can be counted. `codes`: why some failed, and how many.
    """

    action: BulkAction
    state: ExecutionStatus
    done: int
    failed: int
    skipped: int
    left: int | None
    codes: dict[str, int] = {}
    examples: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state in ENDED


class BulkHandle:
    """A bulk operation that is under way, or over. It continues without this process, and after a crash."""

    def __init__(self, app: "AppBridge", bulk_id: str) -> None:
        self.id = bulk_id
        self._app = app

    def progress(self) -> BulkProgress:
        """How far it has come. Raises `NoSuchExecution` if there is no such operation."""
        return self._app.block(self._progress())

    async def progress_async(self) -> BulkProgress:
        return await self._app.bridge(self._progress())

    def wait(self, timeout: Duration | None = None) -> BulkProgress:
        """Until it is over. `TimeoutError` leaves it running."""
        return self._app.block(self._wait(), None if timeout is None else duration_s(timeout))

    async def wait_async(self) -> BulkProgress:
        return await self._app.bridge(self._wait())

    def cancel(self) -> Awaitable[None]:
        """Stop it after the page that is under way. What is done stays done."""
        return self._app.do(f"the cancelling of {self.id}", self._cancel())

    async def _progress(self) -> BulkProgress:
        return await progress_of(self._app.session.executions.caller, self.id)

    async def _wait(self) -> BulkProgress:
        await self._progress()  # or say that there is none
        await self._app.session.executions.settled(self.id)
        return await self._progress()

    async def _cancel(self) -> None:
        await self._progress()
        await self._app.session.executions.cancel(self.id, now=True)

    def __repr__(self) -> str:
        return f"<bulk operation {self.id}>"


async def begin_bulk(
    caller: Caller, bulk_id: str, action: BulkAction, search: ExecutionSearch, at: int, **options: Any
) -> None:
    """Ask the node for it. What is created after the instant `at` is left out. Raises IdTaken."""
    wanted = wanted_by(action, search, at)
    counts = await caller.ask(count_of(wanted), CountsReply)
    total = None if counts.more else sum(counts.counts.values())
    spec = BulkSpec(action, wanted, total=total, **options)
    stored = (await caller.ask(bulk_creation(bulk_id, spec), PromiseReply)).promise
    if not is_same_operation(spec, stored):
        raise IdTaken(f"The id {bulk_id!r} is taken by something else, or by another bulk operation")


async def progress_of(caller: Caller, bulk_id: str) -> BulkProgress:
    """Raises NoSuchExecution where nothing has this id, and BadOption if it is no bulk operation."""
    try:
        view = (await caller.ask(ExecutionGet(bulk_id), ExecutionReply)).execution
    except Refused as refused:
        raise known_refusal(refused, bulk_id) from None
    if view.name != NAME:
        raise BadOption(f"{bulk_id!r} is not a bulk operation")
    promise = (await caller.ask(PromiseGet(bulk_id), PromiseReply)).promise
    spec = read_spec(promise.param)
    counts = Counts()
    if promise.state == "resolved":
        counts = read_progress(promise.value)
    else:
        last = await caller.ask(StreamRead(bulk_id, PROGRESS, last=True), StreamReply)
        if last.promises:
            counts = read_progress(last.promises[-1].value)
    done = counts.done + counts.asked
    left = None
    if spec.total is not None:
        left = max(0, spec.total - done - counts.failed - counts.skipped)
    if view.status == "completed":
        left = 0
    return BulkProgress(
        spec.action,
        view.status,
        done,
        counts.failed,
        counts.skipped,
        left,
        counts.codes,
        tuple(counts.examples),
    )
