"""What is remembered of claims that did not end well: when a worker was lost, and who took over.

1. A lapsed lease and a claim that is given back with an error are noted; the next claim is noted with them.
   Claims that end as they should are not: they are the rule, and cost nothing here.
2. The last `lost_claims_max` are kept, whatever becomes of the execution: it may continue as new or be
   retried.
"""

from msgspec.structs import replace

from holdfast.protocol import limits
from holdfast.protocol.executions import LostClaim, lost_claims_text, read_lost_claims
from holdfast.protocol.records import Millis, Task


def with_lapsed(task: Task) -> Task:
    """Its lease has run out."""
    assert task.due_at is not None
    return _with(task, "lapsed", task.due_at)


def with_given_back(task: Task, now: Millis) -> Task:
    return _with(task, "given_back", now)


def taken(lost: str, pid: str, now: Millis) -> str:
    """Somebody takes the task; what was lost before has a successor."""
    claims = read_lost_claims(lost)
    if claims[-1].taken_by is not None:
        return lost
    return lost_claims_text([*claims[:-1], replace(claims[-1], taken_by=pid, taken_at=now)])


def _with(task: Task, end: str, until: Millis) -> Task:
    assert task.pid is not None
    assert task.acquired_at is not None
    claims = [] if task.lost is None else read_lost_claims(task.lost)
    claims.append(LostClaim(task.pid, task.acquired_at, until, end))  # type: ignore[arg-type]
    return replace(task, lost=lost_claims_text(claims[-limits.lost_claims_max :]))
