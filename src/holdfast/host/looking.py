"""Looking at executions from outside: what one is doing, what it did, and which there are.

Everything here is read from the node: no worker has to be awake. Instants are datetimes in UTC.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.client.caller import Caller, expect
from holdfast.host.bulk import BulkHandle, begin_bulk
from holdfast.host.details import (
    ExecutionDetails,
    MessageAside,
    OperationDetails,
    datetime_unless_never,
    details_of,
)
from holdfast.host.errors import HistoryTooLong
from holdfast.host.pages import all_of, all_of_async
from holdfast.jobs.errors import BadOption
from holdfast.jobs.telling import last_trouble
from holdfast.payloads.durations import datetime_of
from holdfast.payloads.error_values import text_of
from holdfast.payloads.payloads import Payloads
from holdfast.payloads.user_tags import check_id
from holdfast.protocol import limits, tags
from holdfast.protocol.bulk import BulkAction, names_everything
from holdfast.protocol.errors import HoldfastError
from holdfast.protocol.failures import Failure, failures_max, read_failures
from holdfast.protocol.ids import below, new_id
from holdfast.protocol.jobs import CODE_HEADER
from holdfast.protocol.operations import OperationView, operations_of, tries_of
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import (
    CountsReply,
    ExecutionReply,
    ExecutionsReply,
    PromiseReply,
    PromisesReply,
    StreamReply,
    StreamsReply,
)
from holdfast.protocol.requests import (
    ExecutionCount,
    ExecutionGet,
    ExecutionSearch,
    PromiseGet,
    PromiseSearch,
    StreamList,
    StreamRead,
)
from holdfast.protocol.set_aside import message_of, set_aside_max, set_aside_search
from holdfast.protocol.streams import MAILBOX, is_published, number_of

if TYPE_CHECKING:
    from holdfast.host.bridge import AppBridge

HISTORY_FORMAT: Final = "holdfast-history-1"
history_records_max: Final = 100_000


class LookClient:
    """What an open app asks its node. Runs on the session's loop."""

    def __init__(self, caller: Caller, payloads: Payloads, errors: Mapping[str, type[Exception]]) -> None:
        self._caller = caller
        self._payloads = payloads
        self._errors = errors

    async def info(self, execution_id: str) -> ExecutionDetails:
        looked, listed = await self._caller.replies([ExecutionGet(execution_id), StreamList(execution_id)])
        view = expect(looked, ExecutionReply).execution
        streams = expect(listed, StreamsReply).streams
        details = replace(details_of(view), published=await self._published(execution_id, streams))
        if streams.get(MAILBOX):
            details = replace(details, set_aside=await self._set_aside(execution_id))
        if view.status == "failed":
            promise = (await self._caller.ask(PromiseGet(execution_id), PromiseReply)).promise
            details = replace(details, error=self._error_text(promise))
        return details

    async def _published(self, execution_id: str, streams: Mapping[str, int]) -> dict[str, Any]:
        """All of them at once. Each may be large: what one answer has no room for is asked for again."""
        found: dict[str, Any] = {}
        named = sorted(name for name, count in streams.items() if is_published(name) and count)
        asked = [StreamRead(execution_id, stream, last=True) for stream in named]
        for read, page in zip(asked, await self._caller.ask_all(asked, StreamReply), strict=True):
            for element in page.promises:
                with suppress(HoldfastError):  # whoever speaks the protocol may have written it
                    found[read.stream.partition(".")[2]] = self._payloads.decode(element.value)
        return found

    async def _set_aside(self, execution_id: str) -> tuple[MessageAside, ...]:
        """A page may have few of them, or none: the messages themselves lie between."""
        found: list[MessageAside] = []
        cursor: str | None = ""
        while cursor is not None and len(found) < set_aside_max:
            search = set_aside_search(execution_id, cursor=cursor or None)
            page = await self._caller.ask(search, PromisesReply)
            found += [
                MessageAside(message, number_of(message), self._error_text(record))
                for record in page.promises
                if (message := message_of(record.id))
            ]
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

    async def detailed_page(self, search: ExecutionSearch) -> tuple[list[ExecutionDetails], str | None]:
        """With what the failed ones have failed with."""
        reply = await self.page(search)
        found = [details_of(view) for view in reply.executions]
        errors = await self._errors_of([each.id for each in found if each.state == "failed"])
        found = [replace(each, error=errors[each.id]) if each.id in errors else each for each in found]
        return found, reply.cursor

    async def _errors_of(self, ids: Sequence[str]) -> dict[str, str]:
        """What these have failed with: it is the value of their promises. Some may be deleted by now."""
        replies = await self._caller.replies([PromiseGet(each) for each in ids])
        promises = [reply.data.promise for reply in replies if isinstance(reply.data, PromiseReply)]
        return {promise.id: self._error_text(promise) for promise in promises}

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
            datetime_of(view.began_at),
            None if view.took_ms is None else view.took_ms / 1000,
            view.attempts,
            view.worker,
            self._error_text(record) if view.state == "failed" else None,
            self._failures(tries),
            datetime_unless_never(view.resumes_at),
            (lambda: self._payloads.decode(record.value)) if view.state == "completed" else None,
        )

    def _error_text(self, record: Promise) -> str:
        if tags.JOB in record.tags:
            code = (record.value.headers or {}).get(CODE_HEADER, "")
            said = last_trouble(record, self._payloads).message
            if code or said:
                return ": ".join(filter(None, [code, said]))
        try:
            error = self._payloads.decode_error(record.value, self._errors)
        except HoldfastError as unreadable:
            return text_of(unreadable)
        return f"{type(error).__name__}: {text_of(error)}"


class Executions:
    """What `app.find` gives. The node is asked when you use it, not before.

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
        """How many there are of each state. States with none are left out."""
        return self._app.block(self._count())

    async def count_async(self) -> dict[str, int]:
        return await self._app.bridge(self._count())

    def cancel(self, *, now: bool = False, id: str | None = None, all: bool = False) -> BulkHandle:  # noqa: A002
        """Cancel all of them, in the background: those that are open, unless a status was asked for.

        `now`: end them at once; otherwise each is asked, as by `handle.cancel()`. In a script the operation
        is durable when this returns; the node performs it, also after a crash. `id`: of the operation, for
        `app.bulk(id)`; the same again is one operation, and another one under it raises `IdTaken` (`since`
        and `until` are not compared).
        `all=True`: needed if `find` was given no filter, so that nothing is done to everything by mistake.

        >>> app.find(checkout, since="1d").cancel().wait()
        """
        return self._bulk("cancel", id, all, now=now)

    def retry(self, *, id: str | None = None, all: bool = False) -> BulkHandle:  # noqa: A002
        """Retry all of them, in the background: those that failed or timed out, unless a status was asked
        for. Background tasks are sent again. `all`: as for `cancel`.

        >>> app.find(checkout, status="failed", since="1d").retry()
        """
        return self._bulk("retry", id, all)

    def halt(
        self,
        reason: str = "halted in bulk",
        *,
        id: str | None = None,  # noqa: A002
        all: bool = False,  # noqa: A002
    ) -> BulkHandle:
        """Halt all of them that are open, in the background. `all`: as for `cancel`."""
        return self._bulk("halt", id, all, reason=reason)

    def resume(self, *, id: str | None = None, all: bool = False) -> BulkHandle:  # noqa: A002
        """Resume all of them that are halted, in the background. `all`: as for `cancel`."""
        return self._bulk("resume", id, all)

    def fork(self, before: str, *, id: str | None = None, all: bool = False) -> BulkHandle:  # noqa: A002
        """Fork all of them before a step, in the background: those that failed or timed out, unless a status
        was asked for. The new ones have the id of the old one, a dash and the id of the operation. What
        another execution called is skipped, and so are background tasks. `all`: as for `cancel`.

        >>> app.find(checkout, error=BadAddress).fork("ship", id="new-label")
        """
        return self._bulk("fork", id, all, before=before)

    async def fork_async(
        self,
        before: str,
        *,
        id: str | None = None,  # noqa: A002
        all: bool = False,  # noqa: A002
    ) -> BulkHandle:
        return await self._app.bridge(self._begin("fork", id, all, before=before))

    async def cancel_async(
        self,
        *,
        now: bool = False,
        id: str | None = None,  # noqa: A002
        all: bool = False,  # noqa: A002
    ) -> BulkHandle:
        return await self._app.bridge(self._begin("cancel", id, all, now=now))

    async def retry_async(self, *, id: str | None = None, all: bool = False) -> BulkHandle:  # noqa: A002
        return await self._app.bridge(self._begin("retry", id, all))

    async def halt_async(
        self,
        reason: str = "halted in bulk",
        *,
        id: str | None = None,  # noqa: A002
        all: bool = False,  # noqa: A002
    ) -> BulkHandle:
        return await self._app.bridge(self._begin("halt", id, all, reason=reason))

    async def resume_async(self, *, id: str | None = None, all: bool = False) -> BulkHandle:  # noqa: A002
        return await self._app.bridge(self._begin("resume", id, all))

    def _bulk(self, action: BulkAction, bulk_id: str | None, is_all: bool, **options: Any) -> BulkHandle:
        return self._app.block(self._begin(action, bulk_id, is_all, **options))

    async def _begin(
        self, action: BulkAction, bulk_id: str | None, is_all: bool, **options: Any
    ) -> BulkHandle:
        if names_everything(self._search) and not is_all:
            raise BadOption(
                f"find().{action}() without a filter would {action} everything. "
                f"Give find() a filter, or write {action}(all=True)"
            )
        now = self._app.read_clock().now
        chosen = new_id("bulk", now, self._app.fresh()) if bulk_id is None else check_id(bulk_id)
        caller = self._app.session.executions.caller
        try:
            await begin_bulk(caller, chosen, action, self._search, now, **options)
        except ValueError as error:  # what cannot be a request of the protocol
            raise BadOption(str(error)) from None
        return BulkHandle(self._app, chosen)

    def __iter__(self) -> Iterator[ExecutionDetails]:
        return all_of(self._app, self._page)

    def __aiter__(self) -> AsyncIterator[ExecutionDetails]:
        return all_of_async(self._app, self._page)

    async def _page(self, cursor: str | None) -> tuple[list[ExecutionDetails], str | None]:
        return await self._app.session.looking.detailed_page(replace(self._search, cursor=cursor))

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
