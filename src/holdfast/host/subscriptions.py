"""What a worker stores when it starts: which workflows events start (`@app.on`)."""

from collections.abc import Sequence
from typing import Any

from holdfast.protocol import limits, tags
from holdfast.protocol.address import target_of
from holdfast.protocol.requests import EventSubscribe
from holdfast.workflow.registry import Registry, WorkflowDefinition


def subscription_requests(registry: Registry, group: str) -> Sequence[EventSubscribe]:
    """What a worker stores of `@app.on` when it starts."""
    return [_request(event, workflow, group) for event, workflow in registry.subscriptions]


def _request(event: str, workflow: WorkflowDefinition[..., Any], group: str) -> EventSubscribe:
    entries = {
        **workflow.tags,
        tags.SCOPE: "global",
        tags.TARGET: target_of(workflow.group or group),
        tags.WORKFLOW: workflow.name,
    }
    timeout = limits.instant_ms_max
    if workflow.timeout_s is not None:
        ends = workflow.placement.ends(round(workflow.timeout_s * 1000))
        timeout, entries = ends.after_ms, entries | ends.entries
    return EventSubscribe(event, workflow.name, workflow.name, entries, timeout)
