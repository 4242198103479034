"""How a footprint is loaded from tables: which rows to fetch, in which order, and what they fill.

A generator of fetches, so that the same order serves a database that answers at once and one that must be
awaited. `change` says that the records may be changed later: a database that many nodes share must hold
those before it reads them.
"""

from collections.abc import Generator, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from holdfast.engine import Footprint, WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.generations import branch_of, generation_of
from holdfast.protocol.operations import cancel_id
from holdfast.protocol.records import Listener
from holdfast.protocol.sizes import whole_promise_bytes
from holdfast.protocol.streams import answer_id, element_id
from holdfast.store import rows


class Fetch(Struct, frozen=True):
    """Rows of `records` (a promise beside its task, by id), of `tasks` (alone), of `branches` (branch, id,
    whether it may be of the branch: the first ids of each), of `obligations` (promise, awaiter or None,
    address, dialect), of `schedules`, of `uniques` (unique key, id of the open task that holds it), of
    `queues`, of those `gates` among queues that are not open, of `streams`, of `turns` (a `LineKey` as JSON,
    its last turn), of `placed` (name of a line, id), or of `families` (id of an execution, id of an open task
    below it, or that it awaits)."""

    what: Literal[
        "records", "tasks", "branches", "obligations", "schedules", "uniques", "queues", "gates", "streams",
        "turns", "placed", "families",
    ]  # fmt: skip
    ids: set[str]
    change: bool = False
    bytes_max: int | None = None  # of promises; past it `TooMuchAtOnce` is raised


Loading = Generator[Fetch, Sequence[Any], None]

_task_at: Final = len(rows.PROMISE_COLUMNS)
_watched_at: Final = rows.PROMISE_COLUMNS.index("watched")
# Nobody knows how large records are before they are read: so many at a time.
branch_read_at_once: Final = 32
weighed_from: Final = 32  # fewer records are loaded whatever they hold
param_at: Final = rows.PROMISE_COLUMNS.index("param")
value_at: Final = rows.PROMISE_COLUMNS.index("value")
tags_at: Final = rows.PROMISE_COLUMNS.index("tags")


def load(ws: WorkingSet, footprint: Footprint, bytes_max: int | None = None) -> Loading:
    owing = footprint.obligations | footprint.listened
    named = footprint.promises | owing | footprint.branches_of
    if footprint.uniques:
        holders = yield from _load_uniques(ws, footprint.uniques - ws.uniques.keys())
        named = named | holders
    if lines_asked := footprint.placed - ws.lines.places.keys():
        named = named | (yield from _load_places(ws, lines_asked))
    elements: set[str] | None = None
    if footprint.appends and _knows_streams(ws, footprint):
        elements = next_elements(ws, footprint)
        named, owing = named | elements, owing | elements
    yield from _load_records(ws, named, owing, change=True, bytes_max=bytes_max)
    if owing:
        yield from load_obligations(ws, owing)
    if footprint.families:
        members: dict[str, set[str]] = {name: set() for name in footprint.families}
        found = yield Fetch("families", footprint.families)
        for name, member in found:
            members[name].add(member)
        for name in footprint.families:
            ws.fill_family(name, members[name])
    if footprint.streams or footprint.stream_views:
        yield from _load_streams(ws, footprint, elements)
    branches = footprint.branches | _branches_of(ws, footprint.branches_of - footprint.known)
    if branches := branches - ws.branches.keys():
        yield from _load_branches(ws, branches)
    views = set(footprint.views)
    for promise_id in footprint.branches_of:
        promise, task = ws.promises[promise_id], ws.tasks[promise_id]
        if promise is not None and generation_of(promise).number:
            views.add(cancel_id(promise_id))
        if task is not None and task.woken_by is not None:
            views.add(task.woken_by)
    yield from _load_records(ws, views, set(), change=False, bytes_max=bytes_max)
    yield from _load_tasks(ws, footprint.task_views, change=False)
    if schedules := footprint.schedules | footprint.schedule_views:
        found = yield Fetch("schedules", schedules)
        for row in found:
            ws.fill_schedule(row[0], rows.read_schedule(row))
        for schedule_id in schedules:
            ws.fill_schedule(schedule_id, None)
    if footprint.queues or footprint.queue_views or footprint.gates:
        yield from _load_queues(ws, footprint)
    if lines := {line for line in footprint.turns if ws.lines.must_be_read(line, ws.queues)}:
        texts = {msgspec.json.encode(line).decode(): line for line in lines}
        found = yield Fetch("turns", {*texts})
        for text, turn in found:
            ws.lines.fill_turn(texts[text], turn or 0)


def _load_streams(ws: WorkingSet, footprint: Footprint, elements: set[str] | None) -> Loading:
    """The counts, and then what they lead to: the next elements, if those are not loaded yet, whom they wake,
    and their answers."""
    wanted = (footprint.streams | footprint.stream_views) - ws.streams.keys()
    found = (yield Fetch("streams", wanted)) if wanted else ()
    for row in found:
        ws.fill_streams(row[0], rows.read_streams(row))
    for execution_id in wanted:
        ws.fill_streams(execution_id, None)
    if not footprint.appends or (elements is not None and not footprint.answers):
        return
    owing = set[str]()
    if elements is None:
        elements = next_elements(ws, footprint)
        owing.update(elements)
    answers = {answer_id(name) for name in elements} if footprint.answers else set[str]()
    yield from _load_records(ws, elements | answers, owing, change=True)
    if owing:
        yield from load_obligations(ws, owing)


def _knows_streams(ws: WorkingSet, footprint: Footprint) -> bool:
    """Are the executions that are appended to at hand, with their counts? Then one statement does."""
    for execution_id, _ in footprint.appends:
        if execution_id not in ws.streams or execution_id not in ws.promises:
            return False
    return True


def next_elements(ws: WorkingSet, footprint: Footprint) -> set[str]:
    """The ids of the elements that the appends of a group will need, if none was written by somebody else."""
    found: set[str] = set()
    for (execution_id, stream), number in footprint.appends.items():
        streams, promise = ws.streams.get(execution_id), ws.promises.get(execution_id)
        is_known = streams is not None and promise is not None and streams.created_at == promise.created_at
        first = streams.count(stream) + 1 if streams is not None and is_known else 1
        found.update(element_id(execution_id, stream, each) for each in range(first, first + number))
    return found


def _load_uniques(ws: WorkingSet, uniques: set[str]) -> Generator[Fetch, Sequence[Any], set[str]]:
    """Who holds these unique keys; the holders may be changed. One that ends meanwhile is seen to be over."""
    found = (yield Fetch("uniques", uniques)) if uniques else ()
    for unique, holder in found:
        ws.fill_unique(unique, holder)
    for unique in uniques:
        ws.fill_unique(unique, None)
    return {row[1] for row in found}


def _load_places(ws: WorkingSet, lines: set[str]) -> Generator[Fetch, Sequence[Any], set[str]]:
    """The open executions of these lines, which may be changed: one more of each than can be replaced."""
    found = yield Fetch("placed", lines)
    for line in lines:
        members = [row[1] for row in found if row[0] == line]
        ws.lines.fill_places(line, members, map(ws.tasks.get, ws.changed_tasks))
    return {row[1] for row in found}


def _load_queues(ws: WorkingSet, footprint: Footprint) -> Loading:
    """Of the gates, those that are open count as never set: no claim needs to know more about them."""
    for what, names, change in (
        ("gates", footprint.gates - footprint.queues, True),
        ("queues", footprint.queues, True),
        ("queues", footprint.queue_views, False),
    ):
        wanted = {name for name in names if not ws.holds_queue(name) and (change or name not in ws.queues)}
        found = (yield Fetch(what, wanted, change)) if wanted else ()  # type: ignore[arg-type]
        for row in found:
            ws.fill_queue(row[0], rows.read_queue(row), is_view=not change)
        for name in wanted - {row[0] for row in found}:
            ws.fill_queue(name, None, is_view=not change)


def _load_records(
    ws: WorkingSet, ids: set[str], owing: set[str], *, change: bool, bytes_max: int | None = None
) -> Loading:
    """Fill promises and their tasks. Strikes out of `owing` those that cannot owe anybody anything."""
    wanted = ids - ws.promises.keys()
    if not wanted:
        return
    found = yield Fetch("records", wanted, change, bytes_max if len(wanted) > weighed_from else None)
    for row in found:
        fill_record(ws, row)
        if owing and not row[_watched_at]:
            _strike(ws, owing, row[0])
    if len(found) < len(wanted):
        absent = wanted.difference([row[0] for row in found])
        ws.fill_absent(absent)
        owing -= absent


def _load_tasks(ws: WorkingSet, ids: set[str], *, change: bool) -> Loading:
    """Fill tasks alone: their promises may be large, and nobody asks for them."""
    wanted = ids - ws.tasks.keys()
    if wanted:
        found = yield Fetch("tasks", wanted, change)
        for row in found:
            ws.fill_task(rows.read_task(row))
        for task_id in wanted:
            ws.tasks.setdefault(task_id, None)


def fill_record(ws: WorkingSet, row: Any) -> None:
    """Both or none: what cannot be read must not look as if it were loaded."""
    promise = rows.read_promise(row)
    if row[_task_at] is not None:
        ws.fill_task(rows.read_task(row[_task_at:]))
    else:
        ws.tasks.setdefault(row[0], None)
    ws.fill_promise(promise)


def _strike(ws: WorkingSet, owing: set[str], promise_id: str) -> None:
    if promise_id in owing:
        owing.remove(promise_id)
        ws.fill_obligations(promise_id, (), ())


def load_obligations(ws: WorkingSet, owing: set[str]) -> Loading:
    awaiters: dict[str, list[str]] = {promise_id: [] for promise_id in owing}
    listeners: dict[str, list[Listener]] = {promise_id: [] for promise_id in owing}
    found = yield Fetch("obligations", owing)
    for row in found:
        if row[1] is not None:
            awaiters[row[0]].append(row[1])
        else:
            listeners[row[0]].append(rows.read_listener(row))
    for promise_id in owing:
        ws.fill_obligations(promise_id, awaiters[promise_id], listeners[promise_id])
    waiting = {awaiter for ids in awaiters.values() for awaiter in ids}
    yield from _load_tasks(ws, waiting, change=True)


def _branches_of(ws: WorkingSet, ids: set[str]) -> set[str]:
    """Of jobs none: they are not replayed, so nobody asks for what came before."""
    promises = (
        promise for key in ids if (promise := ws.promises[key]) is not None and tags.JOB not in promise.tags
    )
    return {branch for promise in promises if (branch := branch_of(promise)) is not None}


def _load_branches(ws: WorkingSet, branches: set[str]) -> Loading:
    """The members are only shown to whoever acquires the task: no need to hold them.

    Of each branch the first are read, as far as there may be room for them in an answer.
    """
    by_key = {rows.key_of(branch): branch for branch in branches}
    seen: dict[str, dict[str, bool]] = {branch: {} for branch in branches}
    found = yield Fetch("branches", set(by_key))
    for key, promise_id, is_member in found:
        ids = seen[by_key[key]]
        ids[promise_id] = is_member or ids.get(promise_id, False)
    for branch in sorted(seen):
        yield from _load_branch(ws, branch, seen[branch])


def _load_branch(ws: WorkingSet, branch: str, seen: dict[str, bool]) -> Loading:
    """`seen` are the first ids that a store has passed, and whether each may be of the branch. Behind the
    last of them may be more, if they are more than are read."""
    walked = sorted(seen)[: limits.preload_records_max]
    is_cut = len(seen) > len(walked)
    ids = [key for key in walked if seen[key]]
    end = walked[-1] if walked else ""
    size = read = 0
    while read < len(ids) and size <= limits.preload_bytes_max and ws.has_room_for_branches:
        piece = ids[read : read + branch_read_at_once]
        yield from _load_records(ws, set(piece), set(), change=False)
        piece_size = sum(whole_promise_bytes(it) for key in piece if (it := ws.promises[key]) is not None)
        ws.branch_bytes += piece_size
        size += piece_size
        read += len(piece)
    if read < len(ids):
        is_cut, end = True, ids[read - 1] if read else ""
    # Not all that lies below a branch is of it. And an id that looks like the hash of a long branch shares
    # its place in the index.
    own = [
        key for key in ids[:read] if (it := ws.promises[key]) is None or it.tags.get(tags.BRANCH) == branch
    ]
    ws.fill_branch(branch, own, end if is_cut else None)
