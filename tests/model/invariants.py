"""The invariants of the protocol, as two walks over snapshots: every state, and every step.

Each violation is a sentence that begins with the number of the property in the catalogue (1 to 95; 96 and 97
are the two for background steps, 106 to 108 are about schedules that are steered, 109 to 111 about
executions that continue, 118 about versions). A *step*
is one request or one sweep; an array of envelopes is several.
"Live" means pending in the view at `now`: a passed deadline counts before it is written down.

| property | what differs from the catalogue, and why |
|---|---|
| 9, 27 | waived: a timer may have a target |
| 13 | restated: the sweep's list is exactly the pending promises that somebody depends on |
| 25 | `resumes` is a count, so: never more than there are settled promises (or a few more, deleted since) |
| 35, 41 | `resonate:invoke` alone may or may not stand for a target; the snapshot does not show the dialect |
| 71 | who is asked to cancel is woken by a promise that is awaited and resolved in one step |
| 69 | the count grows by the number of consumed callbacks; an awaiter past its deadline counts as fulfilled |
| 72 | a callback left by an earlier suspension serves as well as a new one |
| 73, 79, 87, 89, 97 | a schedule may create, and with `overlap: replace` cancel, promises in the background |
| 78 | a definition changes only by a request, and `createdAt` never |
| 74 | holds while messages are held; with `delivering` keys may go |
| 89 | a schedule's promise has `createdAt` at its occurrence, before `now` |
| 39, 42 | restated for the step that sends it: who begins anew leaves invitations to what it had called |
| 7, 8, 87 | not of what is only kept for its version, after whoever called it has begun anew |
| 46 to 54, 59, 61, 62, 76 | an execution that is retried, or started anew, begins again: 109, 110 |
| 46 | an execution may change its tags while it is held, but none that the protocol reads |
| 57, 89 | the deadline of an execution with a grace is born awaited by it: 117 |
| 92 | entering pending sends at once and sets the retry instant to now + interval, or parks the task |

Parking, bounces, idempotency keys, who woke a task, and the dialect are not in a snapshot; replies show them.
The seed names are kept: orphan_tasks 35, pending_task_no_ttimeout 20, acquired_task_no_lease 19,
suspended_no_callback 45, suspended_with_consumed_callbacks 24, suspended_task_has_ttimeout 22,
fulfilled_task_has_ttimeout 21.
"""

from __future__ import annotations

from tests.model.snapshot import Json, Snapshot
from tests.model.state_properties import state_violations
from tests.model.step_properties import step_violations

_latest: list[Snapshot] = []


def check_state(snap: Json, now: int) -> list[str]:
    """The violations of the state properties in one snapshot."""
    return list(state_violations(_indexed(snap), now))


def check_step(
    before: Json,
    after: Json,
    now: int,
    *,
    background: bool,
    delivering: bool = False,
    retry_ms: int = 30_000,
    mending: bool = False,
) -> list[str]:
    """The violations of the step properties between two snapshots. `mending`: by this request an execution
    may begin again.

    `background` says that the step was a sweep, `delivering` that messages were being handed out; `retry_ms`
    is the interval after which a pending task is offered again.
    """
    a, b = _indexed(before), _indexed(after)
    found = step_violations(
        a, b, now, retry_ms, background=background, delivering=delivering, mending=mending
    )
    return list(found)


def _indexed(snap: Json) -> Snapshot:
    """Index a snapshot. The two latest are kept: each is the after of one step and the before of the next."""
    for indexed in _latest:
        if indexed.snap is snap:
            return indexed
    _latest.append(Snapshot(snap))
    del _latest[:-2]
    return _latest[-1]
