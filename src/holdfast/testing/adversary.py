"""Kills, freezes, restarts and disconnects simulated processes, sets their clocks, then repairs everything.

1. A process dies at one of its next awaits, whichever that is, and is started again a little later.
2. When the trouble is over everybody is alive, awake and connected. Clocks stay where they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdfast.testing.faults import NOW_AND_THEN
from holdfast.testing.places import HostPlace

if TYPE_CHECKING:
    from holdfast.testing.simulation import Simulation

turns_max: Final = 300  # until somebody who was marked dies
down_s_max: Final = 10.0
cut_s_max: Final = 25.0
leap_ms: Final = (500, 5_000, 30_000)


class Adversary:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._faults = simulation.faults
        self._loop = simulation.loop
        self._chance = simulation.faults.chance
        self._acts: dict[str, Callable[[str], None]] = {
            "node killed": lambda kind: self._kill(kind, self._nodes()),
            "worker killed": lambda kind: self._kill(kind, self._workers()),
            "caller killed": lambda kind: self._kill(kind, self._callers()),
            "node frozen": lambda kind: self._freeze(kind, self._nodes()),
            "worker frozen": lambda kind: self._freeze(kind, self._workers()),
            "node restarted": lambda kind: self._restart(kind, self._nodes()),
            "worker restarted": lambda kind: self._restart(kind, self._workers()),
            "partition": lambda kind: self._cut(kind, both=True),
            "one-way partition": lambda kind: self._cut(kind, both=False),
            "node clock jumps": lambda kind: self._leap(kind, self._nodes()),
            "worker clock jumps": lambda kind: self._leap(kind, self._workers()),
        }
        assert self._acts.keys() == NOW_AND_THEN.keys()

    async def live(self) -> None:
        plan = self._faults.plan
        ends_at = self._loop.time() + plan.trouble_s
        kinds = [*plan.weights]
        try:
            while self._loop.time() < ends_at:
                await asyncio.sleep(plan.pause_s * 2 * self._chance.random())
                if kinds:
                    kind = self._chance.choices(kinds, [*plan.weights.values()])[0]
                    self._acts[kind](kind)
        finally:
            self._mend()

    def _mend(self) -> None:
        simulation = self._simulation
        self._faults.over_at = self._loop.millis()
        simulation.log.note("-", "the trouble is over")
        simulation.network.mend_all()
        for place in self._everybody():
            place.process.dies_after = None
            if place.process.is_frozen:
                self._loop.thaw(place.process)
            if not place.is_up:
                simulation.start(place)

    # --- whom ------------------------------------------------------------------------------------------

    def _everybody(self) -> list[HostPlace]:
        return [*self._simulation.places, self._simulation.caller]

    def _nodes(self) -> list[HostPlace]:
        return [place for place in self._simulation.places if place.has_node and place.is_up]

    def _workers(self) -> list[HostPlace]:
        return [place for place in self._simulation.places if place.has_worker and place.is_up]

    def _callers(self) -> list[HostPlace]:
        caller = self._simulation.caller
        return [caller] if self._simulation.restartable and caller.is_up else []

    def _pick(self, places: list[HostPlace]) -> HostPlace | None:
        return self._chance.choice(places) if places else None

    # --- what ------------------------------------------------------------------------------------------

    def _kill(self, kind: str, places: list[HostPlace]) -> None:
        place = self._pick(places)
        if place is None or place.process.dies_after is not None or place.process.is_frozen:
            return
        process = place.process
        down_s = down_s_max * self._chance.random()

        def died() -> None:
            self._faults.count(kind, process.name)
            self._loop.call_later(down_s, self._start_again, place)

        process.on_death.append(died)
        process.dies_after = process.turns + self._chance.randrange(turns_max)

    def _start_again(self, place: HostPlace) -> None:
        if not place.is_up and not self._simulation.is_ending:
            self._simulation.start(place)

    def _freeze(self, kind: str, places: list[HostPlace]) -> None:
        place = self._pick(places)
        if place is None or place.process.is_frozen:
            return
        process = place.process
        process.is_frozen = True
        seconds = self._faults.plan.lease_s * 3 * self._chance.random()
        self._faults.count(kind, process.name, f" for {seconds:.3f} s")
        self._loop.call_later(seconds, self._loop.thaw, process)

    def _restart(self, kind: str, places: list[HostPlace]) -> None:
        place = self._pick(places)
        if place is not None and not place.process.is_frozen and not place.is_leaving:
            self._faults.count(kind, place.process.name)
            self._loop.create_task(self._stop_and_start(place))

    async def _stop_and_start(self, place: HostPlace) -> None:
        await self._simulation.stop(place)
        self._start_again(place)

    def _cut(self, kind: str, *, both: bool) -> None:
        network = self._simulation.network
        outside = [place for place in self._everybody() if not place.has_node]
        here, there = self._pick(outside), self._pick([p for p in self._simulation.places if p.has_node])
        assert here is not None
        assert there is not None
        ways = [(here.name, there.name), (there.name, here.name)]
        if not both:
            ways = [self._chance.choice(ways)]
        seconds = cut_s_max * self._chance.random()
        self._faults.count(kind, here.name, f" from {there.name} for {seconds:.3f} s")
        for source, target in ways:
            network.cut(source, target)
            self._loop.call_later(seconds, network.mend, source, target)

    def _leap(self, kind: str, places: list[HostPlace]) -> None:
        place = self._pick(places)
        if place is not None:
            most = self._chance.choice(leap_ms)
            leap = self._chance.randint(-most, most)
            place.skew_ms += leap
            self._faults.count(kind, place.process.name, f" by {leap} ms")
