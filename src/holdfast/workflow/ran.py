"""How a step ran, as one header of its result: for people who look at the record. No replay reads it.

`1893456000123 0.42 1 host-17-3f2a`: the instant it began by the node's clock, milliseconds until its end with
all attempts and the waits between them, the number of attempts, the worker.
"""

from math import isfinite
from typing import NamedTuple, Self

from holdfast.protocol.records import Millis, Promise
from holdfast.workflow.journal import RAN


class Ran(NamedTuple):
    began_at: Millis
    took_ms: float
    attempts: int
    worker: str

    def __str__(self) -> str:
        return f"{self.began_at} {self.took_ms} {self.attempts} {self.worker}"

    @classmethod
    def of(cls, promise: Promise) -> Self | None:
        """What a record says, if it is one of a step. Whoever speaks the protocol may have written it."""
        words = (promise.value.headers or {}).get(RAN, "").split(" ", 3)
        try:
            began_at, took_ms, attempts, worker = words
            ran = cls(int(began_at), float(took_ms), int(attempts), worker)
        except ValueError:
            return None
        return ran if isfinite(ran.took_ms) else None
