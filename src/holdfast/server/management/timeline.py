"""`/v1/executions/{id}/timeline`: what an execution did and when, for drawings. A row is an operation.

An answer holds far more rows than a search gives at a time, so that thousands of them come in a few requests.
Rows carry no payloads, only the first words of an error. Of streams, messages are rows; what it emits and
publishes is not, nor are the keys by which elements are appended once: that is at `/streams`.
"""

from typing import Final

from holdfast.protocol import limits, tags
from holdfast.protocol.ids import below
from holdfast.protocol.operations import OperationView, is_tried, operations_of, tries_of
from holdfast.protocol.records import Promise
from holdfast.protocol.requests import ExecutionGet, PromiseSearch
from holdfast.protocol.sizes import promise_bytes
from holdfast.server.errors import BadManagementRequest
from holdfast.server.management import executions
from holdfast.server.management.call import Call, Json
from holdfast.server.management.errors_shown import error_chars_max, message_of
from holdfast.server.management.shapes import read_promise

default_rows: Final = 1_000
rows_max: Final = 5_000
search_size: Final = 1_000
looked_beside_max: Final = 500  # steps of one page whose failed attempts may lie on another


async def timeline(call: Call) -> Json:
    """A page of rows, by id. A short page with a cursor is no end."""
    wanted = call.integer("limit") or default_rows
    if not 1 <= wanted <= rows_max:
        raise BadManagementRequest(f"limit is {wanted}, and must be from 1 to {rows_max}")
    execution = await call.ask_for("execution", ExecutionGet(call.id))
    records, cursor = await _records(call, wanted)
    by_id = {record.id: record for record in records}
    if cursor is not None or call.text("cursor") is not None:
        tried = [each for each in records if is_tried(each)][:looked_beside_max]
        by_tried = {each.id: each for each in await executions.tries_at(call, tried)}
    else:
        by_tried = {}
    told = tries_of([*(by_id | by_tried).values()])
    found = operations_of(call.id, [*(by_id | by_tried).values()], execution.get("generation", 0))
    rows = [_row(view, by_id[view.id], told.get(view.id, [])) for view in found if view.id in by_id]
    return {"execution": execution, "rows": rows, "cursor": cursor}


async def _records(call: Call, wanted: int) -> tuple[list[Promise], str | None]:
    """Page by page, until there are so many, or their payloads are as much as one page of a search may hold:
    of those only errors are shown, but all of them are read."""
    records: list[Promise] = []
    cursor, read_bytes = call.text("cursor"), 0
    while True:
        size = min(search_size, wanted - len(records))
        page = await call.ask(PromiseSearch(None, {tags.PARENT: call.id}, below(call.id), size, cursor))
        found = [read_promise(each) for each in page["promises"]]
        read_bytes += sum(map(promise_bytes, found))
        records += found
        cursor = page.get("cursor")
        is_enough = len(records) >= wanted or read_bytes >= limits.search_bytes_max
        if cursor is None or is_enough or not found:
            return records, cursor


def _row(view: OperationView, record: Promise, tries: list[Promise]) -> Json:
    failures = [_cut(each) for each in executions.failures_of(tries)] if tries else []
    first = [failures[0]["at"]] if failures else []  # by a clock of its own
    shown: Json = {
        "id": view.id,
        "kind": view.kind,
        "name": view.name,
        "state": view.state,
        "startedAt": min([view.began_at, *first]),
        "endedAt": None if view.took_ms is None else view.began_at + view.took_ms,
        "attempts": view.attempts or None,
        "worker": view.worker,
        "code": view.code,
        "place": view.place,
        "child": view.id if tags.TARGET in record.tags else None,
        "resumesAt": view.resumes_at,
        "failures": failures or None,
        "dueAt": record.timeout_at if view.state == "running" and view.kind == "sleep" else None,
        "error": message_of({"data": record.value.data}) if view.state == "failed" else None,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _cut(failure: Json) -> Json:
    message = failure["message"][:error_chars_max]
    return {"attempt": failure["attempt"], "at": failure["at"], "code": failure["code"], "message": message}
