"""`/v1/overview`: how everything is doing, in one answer whose cost does not grow with what is stored.

Counts stop at a bound, rates are read from a document a minute, the oldest that wait are found by a bounded
number of looks at an index, and queues and schedules are a page. An answer holds for a second, or until the
change feed tells of something, for all who may see the same; the oldest and the schedules for ten.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from holdfast import __version__
from holdfast.node.health import shown_times, store_facts, store_kind
from holdfast.node.rates import Tally, buckets, minute_ms
from holdfast.protocol.executions import ExecutionStatus
from holdfast.protocol.requests import ExecutionSearch, QueueSearch, ScheduleSearch
from holdfast.server.errors import BadManagementRequest
from holdfast.server.management import executions, problems, queues, schedules
from holdfast.server.management.call import Call, Json

holds_s: Final = 1.0
slow_holds_s: Final = 10.0
kept_max: Final = 200  # answers, for different tokens and stretches of time
minutes_max: Final = 7 * 24 * 60
buckets_max: Final = 500
oldest_max: Final = 10
looks_max: Final = 45  # at the index, to find the oldest
queues_max: Final = 50
schedules_max: Final = 10
schedule_pages_max: Final = 5
schedules_bytes_max: Final = 1_048_576  # of payloads: past that no further page is read
causes_max: Final = 10
_WAITS: Final[list[ExecutionStatus]] = ["suspended", "waiting", "pending"]


async def get(call: Call) -> Json:
    minutes, count = call.integer("minutes") or 60, call.integer("buckets") or 60
    if not 1 <= minutes <= minutes_max or not 1 <= count <= min(buckets_max, minutes):
        raise BadManagementRequest(
            f"minutes is from 1 to {minutes_max}, buckets from 1 to {buckets_max} and no more than minutes"
        )
    key, frame = ("overview", minutes, count), call.node.observed.feed.number
    found: Json = await _held(call, key, holds_s, lambda: _overview(call, minutes, count), frame)
    return found


async def _overview(call: Call, minutes: int, count: int) -> Json:
    now = call.now()
    shown: Json = {"now": now, "counts": await executions.count(call)}
    if call.grant.is_admin:  # they are not told apart by prefix
        shown |= await _rates(call, now, minutes, count)
        shown["node"] = await _node(call, now)
    shown["oldest"] = await _held(call, ("oldest",), slow_holds_s, lambda: _oldest(call, now))
    shown["queues"] = await _queues(call)
    due = await _held(call, ("schedules",), slow_holds_s, lambda: _due_next(call))
    shown["schedules"] = due[:schedules_max]
    shown["problems"] = await problems.find(call, now, shown["queues"], due)
    shown["workers"] = await _workers(call, now)
    return shown


async def _rates(call: Call, now: int, minutes: int, count: int) -> Json:
    """Whole minutes, so that a bucket stays what it is."""
    bucket_ms = -(-minutes // count) * minute_ms
    since = (now // minute_ms + 1) * minute_ms - bucket_ms * count
    found = await call.node.observed.rates.read(since)
    failures = Tally()
    last: dict[str, int] = {}
    last_codes: dict[str, int] = {}
    for minute, counted in sorted(found.items()):
        failures.add(Tally({}, counted.names, counted.codes))
        last |= dict.fromkeys(counted.names, minute * minute_ms)
        last_codes |= dict.fromkeys(counted.codes, minute * minute_ms)
    by_name = [_cause("name", name, number, last) for name, number in _most(failures.names)]
    by_code = [_cause("code", name, number, last_codes) for name, number in _most(failures.codes)]
    return {
        "rates": {"since": since, "bucketMs": bucket_ms} | buckets(found, since, bucket_ms, count),
        "failures": {"byName": by_name, "byCode": by_code},
    }


def _cause(field: str, known_as: str, number: int, last: dict[str, int]) -> Json:
    """Of executions or of background tasks; `others`, of which there were too many, stands by itself."""
    kind, _, rest = known_as.partition(" ")
    if kind not in ("execution", "task"):
        kind, rest = "execution", known_as
    return {"kind": kind, field: rest, "count": number, "last": last.get(known_as)}


def _most(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:causes_max]


async def _oldest(call: Call, now: int) -> list[Json]:
    """Those that were created first among what waits. A page goes from new to old, so an instant is looked
    for, by halving, before which there are about as many as are wanted."""
    too_early, enough = 0, now + 1
    found: list[Json] = []
    for _ in range(looks_max):
        until = enough if not found else (too_early + enough) // 2
        page = await call.ask(ExecutionSearch("execution", _WAITS, until=until, limit=2 * oldest_max))
        some, is_all = page["executions"], page.get("cursor") is None
        if is_all and (len(some) >= oldest_max or not found):
            found = some
            break
        if is_all:
            too_early = until
        else:
            found, enough = some, until
        if enough - too_early <= 1:
            break
    return [*reversed(found)][:oldest_max]


async def _queues(call: Call) -> list[Json]:
    page = await call.ask(QueueSearch(limit=queues_max))
    return await queues.with_ages(call, page["queues"])


async def _due_next(call: Call) -> list[Json]:
    found: list[Json] = []
    cursor: str | None = None
    read_bytes = 0
    for _ in range(schedule_pages_max):
        page = await call.ask(ScheduleSearch(cursor=cursor))
        found += page["schedules"]
        read_bytes += sum(len(each["promiseParam"].get("data") or "") for each in page["schedules"])
        cursor = page.get("cursor")
        if cursor is None or read_bytes > schedules_bytes_max:
            break
    found.sort(key=lambda each: each["nextRunAt"])
    return [schedules.show(each) for each in found if "pausedAt" not in each]


async def _workers(call: Call, now: int) -> Json:
    counts: dict[str, int] = {"running": 0, "draining": 0, "drained": 0, "lost": 0, "stopped": 0}
    after = ""
    while page := await call.node.observed.workers.page(after, now):
        after = page[-1].report.id
        for worker in page:
            if call.grant.covers(worker.report.group):
                counts[worker.state] += 1
    return counts


async def _node(call: Call, now: int) -> Json:
    node = call.node
    store, stats = node.observed.documents.store, node.stats
    size = getattr(store, "size", None)
    facts = store_facts(store) if size is None else {"dbBytes": await size()}
    return {
        "version": __version__,
        "store": store_kind(store),
        "uptimeMs": round((time.time() - node.observed.started_at_s) * 1_000),
        "commitMs": shown_times(node.observed.commit_times),
        "commits": stats.commits,
        "failedCommits": stats.failed_commits,
        "requests": stats.committed_requests,
        "queued": node.queued_count,
        "healthy": stats.store_healthy,
        "readers": node.observed.feed.readers,
        **facts,
    }


async def _held(
    call: Call, key: tuple[Any, ...], seconds: float, work: Callable[[], Awaitable[Any]], frame: int = 0
) -> Any:
    """What was found a moment ago, behind the same frame, for somebody who may see the same."""
    kept, wanted = call.services.kept, (call.grant.prefix, *key)
    found = kept.get(wanted)
    if found is not None and found[0] > time.monotonic() and found[1] == frame:
        return found[2]
    answer = await work()
    for old in [key for key, each in kept.items() if each[0] <= time.monotonic()]:
        del kept[old]
    if len(kept) >= kept_max:
        kept.clear()
    kept[wanted] = time.monotonic() + seconds, frame, answer
    return answer
