"""Looking at executions from outside: what one is doing, what it did, and which there are.

Everything here is read from the node: no worker has to be awake. Instants are datetimes in UTC.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.client.caller import Caller, expect
from holdfast.host.bulk import BulkHandle, begin_bulk
from holdfast.host.errors import HistoryTooLong
from holdfast.payloads.error_values import text_of
from holdfast.payloads.payloads import Payloads
from holdfast.payloads.user_tags import RESERVED, check_id
from holdfast.protocol import limits, tags
from holdfast.protocol.bulk import BulkAction
from holdfast.protocol.errors import HoldfastError
from holdfast.protocol.executions import ExecutionKind, ExecutionStatus, ExecutionView, Wait
from holdfast.protocol.failures import Failure, failures_max, read_failures
from holdfast.protocol.ids import below, new_id
from holdfast.protocol.operations import OperationState, OperationView, operations_of, tries_of
from holdfast.protocol.records import Millis, Promise
from holdfast.protocol.replies import (
    CountsReply,
    ExecutionReply,
    ExecutionsReply,
    PromiseReply,
    PromisesReply,
    StreamsReply,
)
from holdfast.protocol.requests import (
    ExecutionCount,
    ExecutionGet,
    ExecutionSearch,
    PromiseGet,
    PromiseSearch,
    StreamList,
)
from holdfast.protocol.streams import ASIDE, MAILBOX, number_of
from holdfast.steps.info import StepProgress, read_progress

if TYPE_CHECKING:
    from holdfast.host.bridge import AppBridge

HISTORY_FORMAT: Final = "holdfast-history-1"
history_records_max: Final = 100_000
set_aside_max: Final = 100  # of the messages of one execution that are shown


class ExecutionDetails(Struct, frozen=True):
    """An execution or a background task at an instant.

    `since`: when `state` began. `waits`: what a suspended one waits for, each with the line of code.
    `resumes_at`: when one that is `waiting` may go on. `attempts`: how often a worker has taken it up.
    `error`: of one that failed, was halted or given back; `error_code`: what such failures are found by.
    `crashes`: how often in a row its worker died or could not run it, without progress. `progress`: what
    steps that are under way told with `hf.progress`. `set_aside`: messages that were not of the type that the
    code receives, the first 100 of them; `handle.info()` has them, `app.find` does not look for them.
    """

    id: str
    kind: ExecutionKind
    name: str | None
    state: ExecutionStatus
    since: datetime
    created_at: datetime
    ended_at: datetime | None
    deadline: datetime | None
    resumes_at: datetime | None
    attempts: int
    worker: str | None
    queue: str | None
    tags: Mapping[str, str]
    error: str | None
    error_code: str | None
    waits: tuple[Wait, ...] = ()
    generation: int = 0  # how often it has continued as new
    crashes: int = 0
    progress: Mapping[str, StepProgress] = {}  # by step, "" of a background task
    set_aside: "tuple[MessageAside, ...]" = ()


class MessageAside(Struct, frozen=True):
    """A message that could not be read as what the code asked for, and why. Its promise has this `id`."""

    id: str
    number: int
    error: str


class OperationDetails(Struct, frozen=True):
    """One operation of an execution: a step, a sleep, a call, a promise, a note.

    `took_s` is None while it runs. `error` is what it failed with, as text. Of a step that was tried again,
    `failures` are the latest attempts before the last, each with a shortened traceback; `resumes_at` is when
    its next attempt begins, while it waits for that.
    """

    id: str
    kind: str
    name: str
    state: OperationState
    began_at: datetime
    took_s: float | None
    attempts: int
    worker: str | None
    error: str | None
    failures: tuple[Failure, ...] = ()
    resumes_at: datetime | None = None
    _value: Any = None

    def result(self) -> Any:
        """What it gave, decoded from its record; None while it runs or if it failed."""
        return self._value() if self._value is not None else None


class LookClient:
    """What an open app asks its node. Runs on the session's loop."""

    def __init__(self, caller: Caller, payloads: Payloads, errors: Mapping[str, type[Exception]]) -> None:
        self._caller = caller
        self._payloads = payloads
        self._errors = errors

    async def info(self, execution_id: str) -> ExecutionDetails:
        looked, listed = await self._caller.replies([ExecutionGet(execution_id), StreamList(execution_id)])
        view = expect(looked, ExecutionReply).execution
        details = details_of(view)
        if expect(listed, StreamsReply).streams.get(MAILBOX):
            details = replace(details, set_aside=await self._set_aside(execution_id))
        if view.status == "failed":
            promise = (await self._caller.ask(PromiseGet(execution_id), PromiseReply)).promise
            details = replace(details, error=self._error_text(promise))
        return details

    async def _set_aside(self, execution_id: str) -> tuple[MessageAside, ...]:
        """A page may have few of them, or none: the messages themselves lie between."""
        own = {tags.PARENT: execution_id, tags.SCOPE: "local"}
        search = PromiseSearch(None, own, f"{below(execution_id)}{MAILBOX}.", limits.page_size_max)
        found: list[MessageAside] = []
        cursor: str | None = ""
        while cursor is not None and len(found) < set_aside_max:
            page = await self._caller.ask(replace(search, cursor=cursor or None), PromisesReply)
            for record in page.promises:
                message = record.id.removesuffix(ASIDE)
                if message != record.id:
                    found.append(MessageAside(message, number_of(message), self._error_text(record)))
            cursor = page.cursor
        return tuple(sorted(found, key=lambda each: each.number)[:set_aside_max])

    async def steps(self, execution_id: str) -> list[OperationDetails]:
        view = (await self._caller.ask(ExecutionGet(execution_id), ExecutionReply)).execution
        records = await self._records(execution_id)
        by_id = {record.id: record for record in records}
        operations = operations_of(execution_id, records, view.generation)
        tries = tries_of(records)
        return [self._operation(each, by_id[each.id], tries.get(each.id, ())) for each in operations]

    async def history(self, execution_id: str) -> dict[str, Any]:
        """The execution and everything that it recorded, as plain data."""
        view = (await self._caller.ask(ExecutionGet(execution_id), ExecutionReply)).execution
        root = (await self._caller.ask(PromiseGet(execution_id), PromiseReply)).promise
        records = await self._records(execution_id)
        plain: dict[str, Any] = msgspec.to_builtins(
            {"format": HISTORY_FORMAT, "execution": view, "promise": root, "records": records}
        )
        return plain

    async def page(self, search: ExecutionSearch) -> ExecutionsReply:
        return await self._caller.ask(search, ExecutionsReply)

    async def count(self, wanted: ExecutionCount) -> CountsReply:
        return await self._caller.ask(wanted, CountsReply)

    async def _records(self, execution_id: str) -> list[Promise]:
        """All that it recorded. What it called is among it, but not what that recorded in turn."""
        await self._caller.ask(ExecutionGet(execution_id), ExecutionReply)  # or say that there is none
        own = {tags.PARENT: execution_id}
        search = PromiseSearch(None, own, below(execution_id), limits.page_size_max)
        records: list[Promise] = []
        cursor: str | None = ""
        while cursor is not None:
            page = await self._caller.ask(replace(search, cursor=cursor or None), PromisesReply)
            records += page.promises
            cursor = page.cursor
            if len(records) > history_records_max:
                raise HistoryTooLong(
                    f"{execution_id} has recorded more than {history_records_max:,} operations"
                )
        return records

    def _failures(self, tries: Sequence[Promise]) -> tuple[Failure, ...]:
        """The latest ones, as many as are kept."""
        found: list[Failure] = []
        for record in tries[-failures_max:]:
            with suppress(HoldfastError):  # whoever speaks the protocol may have written it
                found += read_failures(self._payloads.decode(record.param))
        return tuple(found[-failures_max:])

    def _operation(self, view: OperationView, record: Promise, tries: Sequence[Promise]) -> OperationDetails:
        return OperationDetails(
            view.id,
            view.kind,
            view.name,
            view.state,
            moment(view.began_at),
            None if view.took_ms is None else view.took_ms / 1000,
            view.attempts,
            view.worker,
            self._error_text(record) if view.state == "failed" else None,
            self._failures(tries),
            _moment(view.resumes_at),
            (lambda: self._payloads.decode(record.value)) if view.state == "completed" else None,
        )

    def _error_text(self, record: Promise) -> str:
        try:
            error = self._payloads.decode_error(record.value, self._errors)
        except HoldfastError as unreadable:
            return text_of(unreadable)
        return f"{type(error).__name__}: {text_of(error)}"


def moment(instant: Millis) -> datetime:
    return datetime.fromtimestamp(instant / 1000, UTC)


def _moment(instant: Millis | None) -> datetime | None:
    """None also for what is as good as never."""
    return None if instant is None or instant >= limits.instant_ms_max else moment(instant)


def details_of(view: ExecutionView) -> ExecutionDetails:
    return ExecutionDetails(
        view.id,
        view.kind,
        view.name,
        view.status,
        moment(view.since),
        moment(view.created_at),
        _moment(view.settled_at),
        _moment(view.timeout_at - (tags.grace_of(view.tags) or 0)),
        _moment(view.due_at) if view.status == "waiting" else None,
        view.attempts,
        view.worker,
        view.queue or view.group,
        {key: value for key, value in view.tags.items() if not key.startswith(RESERVED)},
        view.error,
        view.code,
        tuple(view.waits or ()),
        view.generation,
        view.crashes,
        {told.step: read_progress(told) for told in view.progress or ()},
    )


class Executions:
    """What `app.find` gives: nothing is asked before it is used.

    `for each in found` reads page after page in a script, `async for` in asyncio. `count()` says how many
    there are of each state, each counted up to 10,000.
    """

    def __init__(self, app: "AppBridge", search: ExecutionSearch) -> None:
        self._app = app
        self._search = search

    def page(self, cursor: str | None = None) -> tuple[list[ExecutionDetails], str | None]:
        """One page, newest first; and the cursor of the next one, if there may be one."""
        return self._app.block(self._page(cursor))

    async def page_async(self, cursor: str | None = None) -> tuple[list[ExecutionDetails], str | None]:
        return await self._app.bridge(self._page(cursor))

    def count(self) -> dict[str, int]:
        """How many there are of each state, without those of which there are none."""
        return self._app.block(self._count())

    async def count_async(self) -> dict[str, int]:
        return await self._app.bridge(self._count())

    def cancel(self, *, now: bool = False, id: str | None = None) -> BulkHandle:  # noqa: A002
        """Cancel all of them, in the background: those that are open, unless a status was asked for.

        `now`: end them at once; otherwise each is asked, as by `handle.cancel()`. In a script the operation
        is durable when this returns; the node performs it, also after a crash. `id`: of the operation; the
        same id is the same operation.

        >>> app.find(checkout, since="1d").cancel().wait()
        """
        return self._bulk("cancel", id, now=now)

    def retry(self, *, id: str | None = None) -> BulkHandle:  # noqa: A002
        """Retry all of them, in the background: those that failed or timed out, unless a status was asked
        for. Background tasks are sent again.

        >>> app.find(checkout, status="failed", since="1d").retry()
        """
        return self._bulk("retry", id)

    def halt(self, reason: str = "halted in bulk", *, id: str | None = None) -> BulkHandle:  # noqa: A002
        """Halt all of them that are open, in the background."""
        return self._bulk("halt", id, reason=reason)

    def resume(self, *, id: str | None = None) -> BulkHandle:  # noqa: A002
        """Let all of them that are halted go on, in the background."""
        return self._bulk("resume", id)

    async def cancel_async(self, *, now: bool = False, id: str | None = None) -> BulkHandle:  # noqa: A002
        return await self._app.bridge(self._begin("cancel", id, now=now))

    async def retry_async(self, *, id: str | None = None) -> BulkHandle:  # noqa: A002
        return await self._app.bridge(self._begin("retry", id))

    async def halt_async(self, reason: str = "halted in bulk", *, id: str | None = None) -> BulkHandle:  # noqa: A002
        return await self._app.bridge(self._begin("halt", id, reason=reason))

    async def resume_async(self, *, id: str | None = None) -> BulkHandle:  # noqa: A002
        return await self._app.bridge(self._begin("resume", id))

    def _bulk(self, action: BulkAction, bulk_id: str | None, **options: Any) -> BulkHandle:
        return self._app.block(self._begin(action, bulk_id, **options))

    async def _begin(self, action: BulkAction, bulk_id: str | None, **options: Any) -> BulkHandle:
        now = self._app.read_clock().now
        chosen = new_id("bulk", now, self._app.fresh()) if bulk_id is None else check_id(bulk_id)
        caller = self._app.session.executions.caller
        await begin_bulk(caller, chosen, action, self._search, now, **options)
        return BulkHandle(self._app, chosen)

    def __iter__(self) -> Iterator[ExecutionDetails]:
        cursor: str | None = None
        while True:
            found, cursor = self.page(cursor)
            yield from found
            if cursor is None:
                return

    async def __aiter__(self) -> AsyncIterator[ExecutionDetails]:
        cursor: str | None = None
        while True:
            found, cursor = await self.page_async(cursor)
            for each in found:
                yield each
            if cursor is None:
                return

    async def _page(self, cursor: str | None) -> tuple[list[ExecutionDetails], str | None]:
        reply = await self._app.session.looking.page(replace(self._search, cursor=cursor))
        return [details_of(view) for view in reply.executions], reply.cursor

    async def _count(self) -> dict[str, int]:
        search = self._search
        wanted = ExecutionCount(
            search.kind,
            search.status,
            search.name,
            search.tags,
            search.queue,
            search.code,
            search.prefix,
            search.since,
            search.until,
        )
        reply = await self._app.session.looking.count(wanted)
        return {status: number for status, number in reply.counts.items() if number}
