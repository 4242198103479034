"""The proving ground: virtual time, workers killed at every point, and a ledger of effects.

With pytest, the fixtures of `plugin` are there as soon as Holdfast is installed.
"""

from holdfast.testing.crashes import CrashFailure, Proof, crash_everywhere
from holdfast.testing.ledger import Ledger, StaleToken
from holdfast.testing.loop import JumpingLoop, Stuck
from holdfast.testing.mortal import CrashPoint
from holdfast.testing.replay import Untrue
from holdfast.testing.world import World

__all__ = [
    "CrashFailure",
    "CrashPoint",
    "JumpingLoop",
    "Ledger",
    "Proof",
    "StaleToken",
    "Stuck",
    "Untrue",
    "World",
    "crash_everywhere",
]
