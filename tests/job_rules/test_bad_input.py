"""What cannot be a background task or a queue is refused, and changes nothing."""

from __future__ import annotations

import pytest

from tests.conformance.wire import T0, Json, creation, schedule_of, sub
from tests.job_rules.wire import JobWire, job_creation

CLAIM: Json = {"groups": ["a"], "count": 1, "pid": "p", "ttl": 1}


def sent_to(target: str) -> Json:
    return creation("x", target=target, tags={"holdfast:job": "{}"})


BAD: dict[str, tuple[str, Json]] = {
    "no name": ("queue.get", {}),
    "an empty name": ("queue.get", {"name": ""}),
    "a slash": ("queue.set", {"name": "a/b"}),
    "no room at all": ("queue.set", {"name": "a", "concurrency": 0}),
    "a negative limit": ("queue.set", {"name": "a", "keyConcurrency": -1}),
    "a rate of nothing": ("queue.set", {"name": "a", "rate": {"count": 0, "perMs": 5}}),
    "a rate without time": ("queue.set", {"name": "a", "rate": {"count": 5}}),
    "paused maybe": ("queue.pause", {"name": "a", "paused": "yes"}),
    "a claim from above": ("task.claim", CLAIM | {"ceiling": 2**40}),
    "a failure without code": ("task.fail", {"id": "j", "version": 1}),
    "a failure with a delay in the past": ("task.fail", {"id": "j", "version": 1, "code": "X", "delay": 0}),
    "a job to one worker": ("promise.create", sent_to("poll://uni@queue.a/w")),
    "a job to no queue": ("promise.create", sent_to("poll://any@a")),
    "a job without target": ("promise.create", creation("x", tags={"holdfast:job": "{}"})),
    "a job that is a timer": ("promise.create", job_creation("x", tags={"resonate:timer": "true"})),
    "a job that is no JSON": ("promise.create", job_creation("x", tags={"holdfast:job": "{"})),
    "a job with more in it": ("promise.create", job_creation("x", surprise=1)),
    "two deadlines": ("promise.create", job_creation("x", goodUntil=T0 + 5, goodFor=5)),
    "a delay past the deadline": ("promise.create", job_creation("x", goodUntil=T0 + 5, delay=T0 + 5)),
    "a policy without a key": ("promise.create", job_creation("x", onUnique="reject")),
    "too many retries": ("promise.create", job_creation("x", retry={"base": 5, "retries": 101})),
    "a delay of nothing": ("promise.create", job_creation("x", retry={"delays": [0]})),
    "no delay": ("promise.create", job_creation("x", retry={"delays": []})),
    "a factor below one": (
        "promise.create",
        job_creation("x", retry={"base": 5, "retries": 1, "factor": 0.5}),
    ),
    "a job that is made and claimed": (
        "task.create",
        {"pid": "p", "ttl": 5, "action": sub("promise.create", job_creation("x"))},
    ),
    "a schedule with one deadline": (
        "schedule.create",
        schedule_of("s", promiseTags=job_creation("x", goodUntil=5)["tags"]),
    ),
    "an interval too short": ("schedule.create", schedule_of("s", "@every 0s")),
    "an interval without unit": ("schedule.create", schedule_of("s", "@every 5")),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_refused_and_changes_nothing(wire: JobWire, what: str) -> None:
    wire.running()
    before = wire.snap()
    kind, data = BAD[what]
    answer = wire.send(kind, data)
    assert (answer.status, "HF1001" in answer.data) == (400, True), answer
    assert wire.snap() == before
