"""Another go at a background task: the promise that makes it."""

import msgspec

from holdfast.protocol import limits, tags
from holdfast.protocol.jobs import JobSpec
from holdfast.protocol.records import Promise, Value
from holdfast.protocol.requests import PromiseCreate


def rerun_of(promise: Promise, now: int, new_id: str) -> PromiseCreate:
    """The same again, linked by a tag; deadlines and keys are not kept."""
    spec = tags.job_of(promise.tags)
    assert spec is not None, "only a job is run again"
    left_out = (tags.DELAY, tags.SCHEDULE, tags.ORIGIN, tags.BRANCH, tags.PARENT, tags.SCOPE, tags.SENDING)
    kept = {key: value for key, value in promise.tags.items() if key not in left_out}
    renewed = JobSpec(sent_at=now, retry=spec.retry, key=spec.key)
    entries = {
        **kept,
        tags.JOB: msgspec.json.encode(renewed).decode(),
        tags.RERUN_OF: promise.id,
    }
    headers = {
        key: value for key, value in (promise.param.headers or {}).items() if not key.startswith("holdfast:")
    }
    param = Value(headers or None, promise.param.data)
    return PromiseCreate(new_id, limits.instant_ms_max, param, entries)
