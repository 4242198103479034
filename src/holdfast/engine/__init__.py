"""The rules: one transition function per request. No I/O, no clock, no randomness."""

from holdfast.engine.claims import ClaimPlan
from holdfast.engine.dispatch import apply, footprint
from holdfast.engine.needed import Footprint, Missing
from holdfast.engine.rules import Rules
from holdfast.engine.scans import Scan, scan_of
from holdfast.engine.sweep import Due, earliest_due, sweep_requests
from holdfast.engine.working_set import WorkingSet

__all__ = [
    "ClaimPlan",
    "Due",
    "Footprint",
    "Missing",
    "Rules",
    "Scan",
    "WorkingSet",
    "apply",
    "earliest_due",
    "footprint",
    "scan_of",
    "sweep_requests",
]
