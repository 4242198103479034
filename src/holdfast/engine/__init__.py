"""The law: one transition function per request. No I/O, no clock, no randomness."""

from holdfast.engine.claims import ClaimPlan
from holdfast.engine.law import apply, footprint
from holdfast.engine.rules import Rules
from holdfast.engine.scans import Scan, scan_of
from holdfast.engine.sweep import Due, sweep_requests
from holdfast.engine.working_set import Footprint, Missing, WorkingSet

__all__ = [
    "ClaimPlan",
    "Due",
    "Footprint",
    "Missing",
    "Rules",
    "Scan",
    "WorkingSet",
    "apply",
    "footprint",
    "scan_of",
    "sweep_requests",
]
