"""Counters and gauges, written as Prometheus text.

Ours, not a library's: counting must cost less than a microsecond a request, with no lock and no label
look-up. Labels are bounded: kinds are those of the protocol or `unknown`, groups are the largest hundred.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.node.node import Node
from holdfast.protocol.requests import KINDS

content_type: Final = b"text/plain; version=0.0.4; charset=utf-8"
latency_bounds_s: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Latency:
    """One histogram."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(latency_bounds_s) + 1)
        self.total_s = 0.0

    def observe(self, seconds: float, count: int) -> None:
        self.counts[bisect_left(latency_bounds_s, seconds)] += count
        self.total_s += seconds * count


class Metrics:
    def __init__(self) -> None:
        self.requests: dict[tuple[str, int], int] = {}
        self.latencies: dict[str, Latency] = {}
        self.deliveries: dict[tuple[str, str, str], int] = {}
        self.streams = 0
        self.streams_opened = 0
        self.slow_readers = 0
        self.in_flight = 0
        self.refused: dict[str, int] = {}
        self.process = 0  # of several behind one port, its number

    def count_requests(self, kind: str, status: int, seconds: float, count: int = 1) -> None:
        """So many of a kind that were answered together."""
        if kind not in KINDS:
            kind = "unknown"
        key = (kind, status)
        self.requests[key] = self.requests.get(key, 0) + count
        latency = self.latencies.get(kind)
        if latency is None:
            latency = self.latencies[kind] = Latency()
        latency.observe(seconds, count)

    def count_delivery(self, kind: str, way: str, outcome: str, count: int = 1) -> None:
        key = (kind, way, outcome)
        self.deliveries[key] = self.deliveries.get(key, 0) + count

    def count_slow_reader(self) -> None:
        self.slow_readers += 1

    def count_refused(self, code: str) -> None:
        self.refused[code] = self.refused.get(code, 0) + 1


async def expose(metrics: Metrics, node: Node, connections: int, now_ms: int) -> bytes:
    """Everything, as text. What the store must count is counted now, by its indexes."""
    page = _Page({"process": str(metrics.process)} if metrics.process else {})
    page.family("holdfast_requests_total", "counter", "requests answered, by kind and status")
    for (kind, status), count in sorted(metrics.requests.items()):
        page.sample(count, kind=kind, status=str(status))
    page.family("holdfast_request_duration_seconds", "histogram", "from the last byte in to the reply")
    for kind, latency in sorted(metrics.latencies.items()):
        page.histogram(latency, kind)
    page.one("holdfast_http_connections", "gauge", "open connections", connections)
    page.one("holdfast_streams", "gauge", "open event streams", metrics.streams)
    page.one("holdfast_streams_opened_total", "counter", "event streams opened", metrics.streams_opened)
    page.one(
        "holdfast_slow_readers_total", "counter", "connections dropped for not reading", metrics.slow_readers
    )
    page.one("holdfast_requests_in_flight", "gauge", "envelopes being answered", metrics.in_flight)
    page.family("holdfast_refused_total", "counter", "refused before the node was asked, by error code")
    for code, count in sorted(metrics.refused.items()):
        page.sample(count, code=code)
    page.family("holdfast_deliveries_total", "counter", "messages, by kind, way and outcome")
    for (kind, way, outcome), count in sorted(metrics.deliveries.items()):
        page.sample(count, kind=kind, way=way, outcome=outcome)
    _node(page, node)
    await _backlog(page, node, now_ms)
    return page.encode()


def _node(page: "_Page", node: Node) -> None:
    stats = node.stats
    page.one("holdfast_queue_length", "gauge", "requests waiting for a commit", node.queued_count)
    page.one("holdfast_commits_total", "counter", "groups committed", stats.commits)
    page.one("holdfast_committed_requests_total", "counter", "requests in them", stats.committed_requests)
    mean = stats.committed_requests / stats.commits if stats.commits else 0.0
    page.one("holdfast_group_size", "gauge", "requests per commit, mean since the start", mean)
    page.one(
        "holdfast_failed_commits_total", "counter", "commits that the store refused", stats.failed_commits
    )
    page.one("holdfast_sweeps_total", "counter", "sweeps over what was due", stats.sweeps)
    page.one("holdfast_forgotten_total", "counter", "promises forgotten by retention", stats.forgotten)
    page.one("holdfast_messages_waiting", "gauge", "messages that nobody can take", len(node.router.waiting))
    page.one("holdfast_messages_dropped_total", "counter", "of those, dropped", node.router.dropped_count)


async def _backlog(page: "_Page", node: Node, now_ms: int) -> None:
    backlog = await node.backlog()
    page.family(
        "holdfast_backlog",
        "gauge",
        "pending tasks by group; acquired, waiting, suspended and halted ones of all groups together",
    )
    for entry in backlog.groups:
        page.sample(entry.pending, group=entry.group, state="pending")
    page.sample(backlog.leases, group="", state="acquired")
    page.sample(backlog.waiting, group="", state="waiting")
    page.sample(backlog.suspended, group="", state="suspended")
    page.sample(backlog.halted, group="", state="halted")
    page.family("holdfast_oldest_pending_seconds", "gauge", "age of the oldest pending task, by group")
    for entry in backlog.groups:
        page.sample(max(0, now_ms - entry.oldest_at) / 1000, group=entry.group)
    page.one("holdfast_leases", "gauge", "acquired tasks", backlog.leases)
    page.one("holdfast_timers_due", "gauge", "timers whose instant has passed", backlog.due)


class _Page:
    def __init__(self, everywhere: Mapping[str, str]) -> None:
        self._lines: list[str] = []
        self._everywhere = everywhere  # labels of every sample
        self._name = ""

    def family(self, name: str, kind: str, text: str) -> None:
        self._name = name
        self._lines += (f"# HELP {name} {text}", f"# TYPE {name} {kind}")

    def sample(self, value: float, suffix: str = "", **labels: str) -> None:
        inner = ",".join(f'{key}="{_escape(text)}"' for key, text in {**labels, **self._everywhere}.items())
        self._lines.append(f"{self._name}{suffix}{{{inner}}} {value}" if inner else f"{self._name} {value}")

    def one(self, name: str, kind: str, text: str, value: float) -> None:
        self.family(name, kind, text)
        self.sample(value)

    def histogram(self, latency: Latency, kind: str) -> None:
        for bound, count in zip((*latency_bounds_s, "+Inf"), _sums(latency.counts), strict=True):
            self.sample(count, "_bucket", kind=kind, le=str(bound))
        self.sample(latency.total_s, "_sum", kind=kind)
        self.sample(sum(latency.counts), "_count", kind=kind)

    def encode(self) -> bytes:
        return ("\n".join(self._lines) + "\n").encode()


def _sums(counts: Iterable[int]) -> list[int]:
    total = 0
    return [total := total + count for count in counts]


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
