"""Performs bulk operations, a page at a time, beside everything else that a node does.

1. A page is one commit: how far the operation has come, and what is done to each execution of the page. All
   of it is fenced by the claim of the operation, so two nodes never work on the same page, and after a crash
   nothing is done twice.
2. The outcomes of a page are counted with the next one. After a crash the outcomes of the last page are not
   known; they count as done.
3. A fork is not fenced: its id is made of the execution's and the operation's, so it is one however often
   it is asked for.
4. It gives way: while others are at work it rests several times as long as a page took.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from msgspec.structs import replace

from holdfast.protocol import tags
from holdfast.protocol.bulk import (
    ADDRESS as ADDRESS,
    GROUP,
    PROGRESS,
    STATUSES,
    BulkProgress,
    BulkSpec,
    as_value,
    codes_max,
    examples_max,
    read_progress,
    read_spec,
)
from holdfast.protocol.dialect import CURRENT_VERSION
from holdfast.protocol.errors import HasCaller, InvalidField, Overloaded
from holdfast.protocol.executions import ExecutionView
from holdfast.protocol.operations import cancel_id
from holdfast.protocol.records import Promise, Settlement, TaskRef, Value
from holdfast.protocol.replies import (
    AcquireReply,
    ClaimReply,
    ExecutionReply,
    ExecutionsReply,
    FenceReply,
    PromiseReply,
    Reply,
    StreamReply,
)
from holdfast.protocol.requests import (
    KINDS,
    AppendAction,
    CancelAction,
    ContinueAction,
    CreateAction,
    ExecutionCancel,
    ExecutionFork,
    ExecutionGet,
    ExecutionRetry,
    HaltAction,
    PromiseGet,
    PromiseSettle,
    Request,
    RequestData,
    RetryAction,
    SettleAction,
    StreamAppend,
    StreamRead,
    TaskClaim,
    TaskContinue,
    TaskFence,
    TaskFulfill,
    TaskHalt,
    TaskHeartbeat,
    TaskRelease,
)
from holdfast.protocol.reruns import rerun_of

if TYPE_CHECKING:
    from holdfast.node.node import Node

log = logging.getLogger("holdfast.node")

page_executions: Final = 50
lease_ms: Final = 10_000
rest_share: Final = 8.0  # so many times as long as a page took, while others are at work
rest_s_min: Final = 0.002
failed_rest_s: Final = 5.0

_kind_of: Final = {data: kind for kind, data in reversed(KINDS.items())}
Action = CancelAction | RetryAction | HaltAction | ContinueAction | CreateAction | ExecutionFork


class BulkRunner:
    """Of one node. It does nothing, and costs nothing, until there is a bulk operation."""

    def __init__(self, node: "Node", *, is_idle: bool) -> None:
        self._node = node
        self._is_idle = is_idle  # beside a node that does it, or while somebody debugs
        self._pid = f"bulk-{uuid4().hex[:12]}"
        self._task: asyncio.Task[None] | None = None
        self._is_wanted = False
        self._stopping = asyncio.Event()

    def start(self) -> None:
        """Go on with what was left when the last node stopped."""
        self.wake()

    def wake(self) -> None:
        """There is an operation to be claimed."""
        if self._is_idle:
            return
        self._is_wanted = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """After the page that is under way. What is left is given back, for another node or the next one."""
        self._stopping.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while self._is_wanted and not self._stopping.is_set():
            self._is_wanted = False
            try:
                if await self._node.offers(GROUP, 1):
                    await self._claim()
            except Exception:
                log.warning("a bulk operation was interrupted; it will continue", exc_info=True)
                await self._rest(failed_rest_s)
                self._is_wanted = True

    async def _claim(self) -> None:
        while not self._stopping.is_set():
            [reply] = await self._ask([TaskClaim([GROUP], 1, self._pid, lease_ms)])
            claimed = reply.data.tasks if isinstance(reply.data, ClaimReply) else []
            if not claimed:
                return
            await self._perform(claimed[0])

    async def _perform(self, claim: AcquireReply) -> None:
        ref = TaskRef(claim.task.id, claim.task.version)
        try:
            spec = read_spec(claim.promise.param)
        except ValueError as error:
            await self._end(ref, "rejected", Value({"holdfast:why": str(error)[:1_000]}))
            return
        operation = _Operation(ref, spec, await self._progress(ref.id))
        log.info("bulk %s %s continues", spec.action, ref.id, extra={"execution": ref.id})
        now_s = asyncio.get_running_loop().time
        while not operation.is_over:
            began, committed = now_s(), self._node.stats.committed_requests
            if not await self._page(operation):
                return
            if self._stopping.is_set() and not operation.is_over:
                await self._ask([TaskRelease(ref.id, ref.version)])
                return
            took = now_s() - began
            others = self._node.stats.committed_requests - committed - operation.requests
            await self._rest_between(ref, max(rest_s_min, took * rest_share) if others > 0 else 0)
        log.info(
            "bulk %s %s: %d done, %d failed", spec.action, ref.id, operation.progress.done,
            operation.progress.failed, extra={"execution": ref.id},
        )  # fmt: skip
        await self._end(ref, "resolved", as_value(operation.progress))

    async def _rest_between(self, ref: TaskRef, seconds: float) -> None:
        """Between two pages, however long: whoever loses the claim does not know the outcomes of the last."""
        beat_s = lease_ms / 4_000
        while seconds > beat_s and not self._stopping.is_set():
            await self._rest(beat_s)
            seconds -= beat_s
            try:
                await self._ask([TaskHeartbeat(self._pid, [ref])])
            except Exception:  # of a busy node: the next page finds out whether the claim is lost
                log.warning("a heartbeat of a bulk operation failed; it continues", exc_info=True)
        await self._rest(seconds)

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def _page(self, operation: "_Operation") -> bool:
        """Do one page. False: the claim is lost, or somebody has cancelled the operation."""
        ref = operation.ref
        looked = await self._ask(operation.look(self._pid), operation)
        *_, cancelled, found = looked
        if isinstance(cancelled.data, PromiseReply) and cancelled.data.promise.state == "resolved":
            await self._end(ref, "rejected_canceled", as_value(operation.progress))
            return False
        views = [each.data.execution for each in looked[1:-2] if isinstance(each.data, ExecutionReply)]
        if isinstance(found.data, ExecutionsReply):
            views += found.data.executions
            operation.cursor = found.data.cursor
        elif operation.progress.cursor is not None:
            raise RuntimeError(f"executions cannot be found: {found.data}")
        tasks = [PromiseGet(view.id) for view in views if operation.needs_promise(view)]
        promises = [
            each.data.promise
            for each in (await self._ask(tasks, operation) if tasks else ())
            if isinstance(each.data, PromiseReply)
        ]
        actions = operation.actions(views, {each.id: each for each in promises}, self._node.now())
        told, *replies = await self._ask(operation.page(actions), operation)
        if told.status != 200:
            log.info("bulk operation %s is now held by another node", ref.id, extra={"execution": ref.id})
            return False
        operation.count(actions, replies)
        return True

    async def _progress(self, bulk_id: str) -> BulkProgress:
        [reply] = await self._ask([StreamRead(bulk_id, PROGRESS, last=True)])
        if not isinstance(reply.data, StreamReply) or not reply.data.promises:
            return BulkProgress()
        last = read_progress(reply.data.promises[-1].value)
        return replace(last, done=last.done + last.asked, asked=0)

    async def _end(self, ref: TaskRef, state: Settlement, value: Value) -> None:
        await self._ask([TaskFulfill(ref.id, ref.version, SettleAction(PromiseSettle(ref.id, state, value)))])

    async def _ask(self, asked: Sequence[RequestData], operation: "_Operation | None" = None) -> list[Reply]:
        requests = [
            Request(_kind_of[type(data)], f"{self._pid}-{number}", CURRENT_VERSION, "A", data)
            for number, data in enumerate(asked)
        ]
        if operation is not None:
            operation.requests += len(requests)
        replies = await self._node.request(requests)
        if replies and replies[0].status in (429, 503):
            raise RuntimeError(f"the node is busy: {replies[0].data}")
        return replies


class _Operation:
    """One bulk operation, as far as this node knows it."""

    def __init__(self, ref: TaskRef, spec: BulkSpec, progress: BulkProgress) -> None:
        self.ref = ref
        self.spec = spec
        self.progress = progress  # with all outcomes counted
        self.cursor = progress.cursor
        self.requests = 0
        wanted = spec.wanted
        status = wanted.status or [*STATUSES[spec.action]]
        self._search = replace(wanted, status=status, limit=page_executions)

    @property
    def is_over(self) -> bool:
        return self.progress.cursor is None and not self.progress.again

    def look(self, pid: str) -> list[RequestData]:
        """What comes next: what there was no time for, or the next page."""
        self.requests = 0
        self.cursor = self.progress.cursor
        again = [ExecutionGet(name) for name in self.progress.again]
        beat = TaskHeartbeat(pid, [self.ref])
        cancelled = PromiseGet(cancel_id(self.ref.id))
        if again or self.cursor is None:
            return [beat, *again, cancelled, cancelled]
        return [beat, cancelled, replace(self._search, cursor=self.cursor or None)]

    def needs_promise(self, view: ExecutionView) -> bool:
        return self.spec.action == "retry" and view.kind == "task"

    def actions(
        self, views: Sequence[ExecutionView], promises: dict[str, Promise], now: int
    ) -> dict[str, Action]:
        found: dict[str, Action] = {}
        skipped = 0
        for view in views:
            has_caller = view.tags.get(tags.PARENT, view.id) != view.id
            if view.group == GROUP or (self.spec.action == "fork" and has_caller):
                skipped += 1
                continue
            try:
                if not self.needs_promise(view):
                    found[view.id] = self._action(view.id)
                elif view.id in promises:
                    again = f"{view.id}-{self.ref.id}"
                    found[view.id] = CreateAction(rerun_of(promises[view.id], now, again))
            except ValueError:  # the new id is too long
                self.progress = _with_failure(self.progress, view.id, InvalidField.code)
        if skipped:
            self.progress = replace(self.progress, skipped=self.progress.skipped + skipped)
        return found

    def _action(self, execution_id: str) -> Action:
        match self.spec.action:
            case "cancel":
                return CancelAction(ExecutionCancel(execution_id, self.spec.now))
            case "retry":
                return RetryAction(ExecutionRetry(execution_id))
            case "halt":
                return HaltAction(TaskHalt(execution_id, None, self.spec.reason or "halted in bulk"))
            case "resume":
                return ContinueAction(TaskContinue(execution_id))
            case "fork":
                return ExecutionFork(execution_id, f"{execution_id}-{self.ref.id}", self.spec.before)

    def page(self, actions: dict[str, Action]) -> list[RequestData]:
        """First that this page is done, then the page: one commit."""
        told = replace(self.progress, cursor=self.cursor, asked=len(actions), again=[])
        append = StreamAppend(self.ref.id, PROGRESS, as_value(told))
        asked = (AppendAction(append), *actions.values())
        return [
            each if isinstance(each, ExecutionFork) else TaskFence(self.ref.id, self.ref.version, each)
            for each in asked
        ]

    def count(self, actions: dict[str, Action], replies: Sequence[Reply]) -> None:
        done = skipped = 0
        progress = self.progress
        again: list[str] = []
        for name, reply in zip(actions, replies, strict=True):
            status, code = reply.status, reply.code
            if isinstance(reply.data, FenceReply):
                status, code = reply.data.action.head.status, reply.data.action.head.code
            if status == 200:
                done += 1
            elif code == Overloaded.code:
                again.append(name)
            elif code == HasCaller.code:
                skipped += 1
            else:
                progress = _with_failure(progress, name, code or str(status))
        self.progress = replace(
            progress,
            done=progress.done + done,
            skipped=progress.skipped + skipped,
            cursor=self.cursor,
            asked=0,
            again=again,
        )


def _with_failure(progress: BulkProgress, name: str, code: str) -> BulkProgress:
    codes, examples = {**progress.codes}, [*progress.examples]
    if code in codes or len(codes) < codes_max:
        codes[code] = codes.get(code, 0) + 1
    if len(examples) < examples_max:
        examples.append(name)
    return replace(progress, failed=progress.failed + 1, codes=codes, examples=examples)
