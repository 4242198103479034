"""Bulk operations: one thing that is done to every execution or background task for which a filter is true.

A bulk operation is an execution itself, of a workflow that the node performs (`node/bulk.py`): it is claimed,
kept and fenced like any other, and its progress is a value that it publishes. So it survives the node, any
node may go on with it, and it is looked at and cancelled like any other.
"""

from base64 import b64decode, b64encode
from typing import Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from holdfast.protocol import limits, tags
from holdfast.protocol.address import BULK_GROUP
from holdfast.protocol.executions import ExecutionStatus
from holdfast.protocol.records import Promise, Value
from holdfast.protocol.requests import ExecutionCount, ExecutionSearch, PromiseCreate
from holdfast.protocol.text import check_text

GROUP: Final = BULK_GROUP
ADDRESS: Final = f"poll://any@{GROUP}"
NAME: Final = "holdfast.bulk"  # as an execution
PROGRESS: Final = "value.progress"
codes_max: Final = 16  # kinds of failures that are counted apart
examples_max: Final = 10

BulkAction = Literal["cancel", "retry", "halt", "resume", "fork"]

# What each does if the filter names no status.
STATUSES: Final[dict[BulkAction, tuple[ExecutionStatus, ...]]] = {
    "cancel": ("pending", "waiting", "claimed", "running", "suspended", "halted"),
    "retry": ("failed", "timed_out", "expired"),
    "halt": ("pending", "waiting", "running", "suspended"),
    "resume": ("halted",),
    "fork": ("failed", "timed_out"),
}


class BulkSpec(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is to be done, and to which. `total`: how many there were at the start, if that is known."""

    action: BulkAction
    wanted: ExecutionSearch
    now: bool = False  # of cancel: end them at once
    reason: str = ""  # of halt
    before: str = ""  # of fork: the name of a step, or of another operation
    total: int | None = None


class BulkProgress(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How far it has come. `skipped`: what another execution called, which goes with that one; or a bulk
    operation. `codes`: why some failed, and how many. `examples`: a few of those.

    For whoever goes on: `cursor` is where the search goes on (None: it has come to its end), `asked` how many
    were asked for whose outcome is not counted yet, `again` what there was no time for.
    """

    done: int = 0
    failed: int = 0
    skipped: int = 0
    codes: dict[str, int] = {}
    examples: list[str] = []
    cursor: str | None = ""
    asked: int = 0
    again: list[str] = []


def wanted_by(action: BulkAction, search: ExecutionSearch, at: int) -> ExecutionSearch:
    """What it is done to: with a status that makes sense, and nothing that is created after this instant.
    Raises ValueError."""
    if action == "fork" and search.kind == "task":
        raise ValueError("A background task has no steps: only executions are forked")
    until = at + 1 if search.until is None else min(search.until, at + 1)
    status = search.status or [*STATUSES[action]]
    kind = "execution" if action == "fork" else search.kind
    return replace(search, kind=kind, status=status, until=until, limit=None, cursor=None)


def names_everything(search: ExecutionSearch) -> bool:
    """Is there no filter at all? Then it would be done to everything there is, and must be asked for so."""
    return not any(value for name, value in asdict(search).items() if name not in ("limit", "cursor"))


def count_of(search: ExecutionSearch) -> ExecutionCount:
    fields = {name: each for name, each in asdict(search).items() if name not in ("limit", "cursor")}
    return ExecutionCount(**fields)


def bulk_creation(bulk_id: str, spec: BulkSpec) -> PromiseCreate:
    entries = {
        tags.ORIGIN: bulk_id,
        tags.BRANCH: bulk_id,
        tags.PARENT: bulk_id,
        tags.SCOPE: "global",
        tags.TARGET: ADDRESS,
        tags.WORKFLOW: NAME,
        "action": spec.action,
    }
    if spec.reason:
        check_text("reason", spec.reason, limits.error_bytes_max)
    if spec.action == "fork":
        check_text("before", spec.before)
    elif spec.before:
        raise ValueError("before is for a fork: leave it out")
    return PromiseCreate(bulk_id, limits.instant_ms_max, as_value(spec), entries)


def is_same_operation(wanted: BulkSpec, stored: Promise) -> bool:
    """Is what has the id the operation that is asked for? When it was asked for does not matter, nor how many
    there were then."""
    if stored.tags.get(tags.WORKFLOW) != NAME:
        return False
    found = read_spec(stored.param)
    return _agreed(found) == _agreed(wanted)


def _agreed(spec: BulkSpec) -> BulkSpec:
    search = replace(spec.wanted, since=None, until=None)
    return replace(spec, wanted=search, total=None)


def as_value(record: BulkSpec | BulkProgress) -> Value:
    return Value(None, b64encode(msgspec.json.encode(record)).decode())


def read_spec(value: Value) -> BulkSpec:
    """ValueError if it is none."""
    return msgspec.json.decode(b64decode(value.data or ""), type=BulkSpec)


def read_progress(value: Value) -> BulkProgress:
    return msgspec.json.decode(b64decode(value.data or ""), type=BulkProgress)
