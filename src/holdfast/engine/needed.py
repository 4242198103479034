"""Which records a request needs, and the exception that says that some of them are missing."""

from typing import NamedTuple

from msgspec import Struct


class LineKey(NamedTuple):
    """What waits in one group with one priority: all of it, or the line of one name."""

    group: str
    priority: int
    name: str | None


class Footprint(Struct):
    """What to load. `obligations` are promises whose callbacks, awaiters and listeners are needed;
    `branches_of` are promises whose branch is, as far as it is read, unless they are `known`. The `views` are
    only looked at, never changed, so a store that many nodes share need not hold them; of the `task_views`
    only the tasks, without the payloads of their promises. The `listened` only get a listener: they must not
    settle meanwhile, but their tasks may be claimed."""

    promises: set[str] = set()
    obligations: set[str] = set()
    branches_of: set[str] = set()
    known: set[str] = set()  # among those: of which only what woke them is needed
    branches: set[str] = set()
    views: set[str] = set()
    task_views: set[str] = set()
    listened: set[str] = set()
    schedules: set[str] = set()
    schedule_views: set[str] = set()
    uniques: set[str] = set()  # unique keys of jobs: who holds them
    queues: set[str] = set()
    queue_views: set[str] = set()
    gates: set[str] = set()  # queues that matter only if they are paused or have limits
    streams: set[str] = set()  # executions whose streams are needed; those change only while it is held
    stream_views: set[str] = set()
    appends: dict[tuple[str, str], int] = {}  # execution and stream: so many next elements are needed
    answers: set[tuple[str, str]] = set()  # of those: with the promises of their answers
    placed: set[str] = set()  # lines of queues: their open executions
    families: set[str] = set()  # executions: what may be among those that they called; named as well, so held
    turns: set[LineKey] = set()  # the last turn of each, if its queue has turns at all
    noted: tuple[str | None, ...] = ()  # the tags whose place in a queue was noted last
    creations: int = 0  # how many of the promises were named by whoever wants to create them


class Missing(Exception):
    """A request needs records that are not in the working set."""

    def __init__(self, footprint: Footprint) -> None:
        super().__init__()
        self.footprint = footprint
