"""The faults of a simulation: drawn from a seed, counted when they really happen.

A seed enables some kinds of faults and leaves others out, each at a rate of its own: a fault that always
comes with all the others hides what it does alone.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Final, Literal

from msgspec import Struct

StoreKind = Literal["memory", "sqlite", "shared"]

# How often one of these strikes: the bounds between which a seed draws its rate.
PER_REQUEST: Final = {
    "request lost": (0.005, 0.1),
    "reply lost": (0.005, 0.1),
    "request doubled": (0.005, 0.1),
    "request delayed": (0.005, 0.1),
    "reply delayed": (0.005, 0.1),
    "message lost": (0.02, 0.5),
    "message doubled": (0.02, 0.5),
    "message delayed": (0.02, 0.5),
    "message overtaken": (0.02, 0.5),
    "stream broken": (0.01, 0.1),
    "disk slow": (0.005, 0.1),
    "commit failed": (0.005, 0.05),
    "commit unknown": (0.005, 0.05),
    "call lost": (0.02, 0.5),
    "call doubled": (0.02, 0.5),
    "call delayed": (0.02, 0.5),
}
# What an adversary does now and then: the bounds between which a seed draws its weight.
NOW_AND_THEN: Final = {
    "node killed": (0.2, 1.0),
    "worker killed": (0.2, 1.0),
    "node frozen": (0.1, 0.6),
    "worker frozen": (0.1, 0.6),
    "node restarted": (0.1, 0.4),
    "worker restarted": (0.1, 0.4),
    "partition": (0.1, 0.6),
    "one-way partition": (0.1, 0.6),
    "node clock jumps": (0.1, 0.6),
    "worker clock jumps": (0.1, 0.6),
    "caller killed": (0.1, 0.4),
}
# What comes of the others.
CONSEQUENCES: Final = ("killed before a commit", "killed between a commit and its reply")
KINDS: Final = (*PER_REQUEST, *NOW_AND_THEN, *CONSEQUENCES)


class Plan(Struct, frozen=True):
    """One seed's world. Every number in it follows from the seed."""

    seed: int
    store: StoreKind
    nodes: int
    workers: int
    workers_inside: bool  # workers share a process, and so its death, with a node
    lease_s: float
    retry_ms: int
    concurrency: int
    latency_s: float
    disk_s: float
    trouble_s: float  # for so long things go wrong
    pause_s: float  # between two acts of the adversary, at most
    rates: dict[str, float]
    weights: dict[str, float]
    prefetch: int  # background tasks that a worker claims ahead
    drain_s: float  # what a worker that stops leaves running ones
    like_uvloop: bool  # timers behave as those of uvloop

    @staticmethod
    def draw(seed: int, stores: Iterable[StoreKind] = ("memory", "sqlite", "shared")) -> "Plan":
        chance = Random(f"plan {seed}")  # noqa: S311
        store = chance.choice(tuple(stores))
        appetite = chance.choice((0.0, 0.25, 0.5, 0.5, 0.8))  # 0: a run in which nothing goes wrong
        return Plan(
            seed=seed,
            store=store,
            nodes=chance.randint(2, 3) if store == "shared" else 1,
            workers=chance.randint(1, 3),
            workers_inside=chance.random() < 0.2,
            lease_s=chance.choice((2.0, 5.0, 20.0)),
            retry_ms=chance.choice((1_000, 5_000, 30_000)),
            concurrency=chance.choice((1, 3, 100)),
            latency_s=chance.choice((0.0005, 0.005, 0.05)),
            disk_s=chance.choice((0.0005, 0.005, 0.02)),
            trouble_s=chance.choice((5.0, 20.0, 60.0)),
            pause_s=chance.choice((0.5, 2.0, 8.0)),
            rates=_subset(PER_REQUEST, appetite, chance),
            weights=_subset(NOW_AND_THEN, appetite, chance),
            prefetch=chance.choice((0, 0, 2, 10)),
            drain_s=chance.choice((0.5, 60.0)),
            like_uvloop=Random(f"loop {seed}").random() < 0.5,  # noqa: S311
        )

    @property
    def time_jumps(self) -> bool:
        """Does the clock that judges? A shared store has its own; a worker inside a node has the node's."""
        inside = self.workers_inside and "worker clock jumps" in self.weights
        return self.store != "shared" and (inside or "node clock jumps" in self.weights)

    def lines(self) -> list[str]:
        size = f"{self.nodes} node(s) on {self.store}, {self.workers} worker(s)"
        inside = " in their processes" if self.workers_inside else ""
        times = f"lease {self.lease_s:g} s, retry {self.retry_ms} ms, trouble for {self.trouble_s:g} s"
        timers = ", timers as in uvloop" if self.like_uvloop else ""
        rates = ", ".join(f"{kind} {rate:.3f}" for kind, rate in (self.rates | self.weights).items())
        return [f"seed {self.seed}: {size}{inside}; {times}{timers}", f"faults: {rates or 'none'}"]


def _subset(kinds: dict[str, tuple[float, float]], appetite: float, chance: Random) -> dict[str, float]:
    chosen = [kind for kind in kinds if chance.random() < appetite]
    return {kind: round(chance.uniform(*kinds[kind]), 4) for kind in chosen}


class EventLog:
    """What happened, one line an event, in virtual time."""

    def __init__(self, millis: Callable[[], int]) -> None:
        self.lines: list[str] = []
        self._millis = millis
        self._began = millis()

    def note(self, who: str, what: str) -> None:
        self.lines.append(f"{self._millis() - self._began:>8} {who:<10} {what}")


class Faults:
    """Whether a fault strikes now, and how often each did."""

    def __init__(self, plan: Plan, chance: Random, log: EventLog) -> None:
        self.counts: dict[str, int] = {}
        self.chance = chance
        self.plan = plan
        self.log = log
        self.over_at: int | None = None  # when the trouble ended

    @property
    def is_over(self) -> bool:
        return self.over_at is not None

    def strikes(self, kind: str, who: str) -> bool:
        rate = self.plan.rates.get(kind)
        if self.is_over or rate is None or self.chance.random() >= rate:
            return False
        self.count(kind, who)
        return True

    def count(self, kind: str, who: str, more: str = "") -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.log.note(who, f"! {kind}{more}")
