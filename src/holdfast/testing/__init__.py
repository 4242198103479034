"""Test tools: virtual time, workers killed at every point, whole installations simulated from a seed.

With pytest, the fixtures of `plugin` are there as soon as Holdfast is installed. Strategies for Hypothesis
are in `strategies`.
"""

from holdfast.testing.case import WorldTestCase
from holdfast.testing.crashes import CrashFailure, Proof, crash_everywhere
from holdfast.testing.history_replay import Replayed, replay_history
from holdfast.testing.ledger import Ledger, StaleToken
from holdfast.testing.loop import JumpingLoop, Stuck
from holdfast.testing.mortal import CrashPoint
from holdfast.testing.replay import Untrue
from holdfast.testing.seeds import SeedReport, simulate
from holdfast.testing.simulation import Simulation, SimulationFailure
from holdfast.testing.world import World

__all__ = [
    "CrashFailure",
    "CrashPoint",
    "JumpingLoop",
    "Ledger",
    "Proof",
    "Replayed",
    "SeedReport",
    "Simulation",
    "SimulationFailure",
    "StaleToken",
    "Stuck",
    "Untrue",
    "World",
    "WorldTestCase",
    "crash_everywhere",
    "replay_history",
    "simulate",
]
