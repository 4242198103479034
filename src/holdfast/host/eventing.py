"""What an app does with events: sending them, and declaring which workflows they start."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from holdfast.client.caller import fresh_key
from holdfast.host.bridge import AppBridge
from holdfast.jobs.registry import TaskRegistry
from holdfast.payloads.event_values import check_event_name, encode_event
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.replies import EventReply
from holdfast.protocol.requests import EventSend
from holdfast.steps.hooks import Hooks, with_headers
from holdfast.workflow.registry import Registry, WorkflowDefinition


class Eventing:
    """In scripts `event` waits and returns; in asyncio it is awaited."""

    hooks: Hooks
    payloads: Payloads
    registry: Registry
    tasks: TaskRegistry
    _bridge: AppBridge

    def event(self, name: str, /, *, id: str | None = None, **attributes: Any) -> Awaitable[None]:  # noqa: A002
        """Send an event: it wakes every execution that waits for it with `hf.event`, and starts the workflows
        declared with `@app.on`. In a script it is durable when this returns, in asyncio when it was awaited.

        Under the same `id` an event is sent once, however often you call this: give the id of a webhook.

        >>> app.event("user.verified", user="ada", id="evt-9")
        """
        value, match = encode_event(self.payloads, attributes)
        value = with_headers(value, self.hooks.carried.headers(self.payloads))
        sent = EventSend(check_event_name(name), id or fresh_key(), value, match)

        async def send() -> None:
            session = self._bridge.session
            await session.store_subscriptions()  # those declared a moment ago must see it
            await session.executions.caller.ask(sent, EventReply)

        return self._bridge.do(f"the event {name}", send())

    def on(self, name: str, /) -> Callable[[Any], Any]:
        """Start a workflow for each event of this name, once by its id: `@app.on("user.signed_up")`.

        The function is a workflow, or becomes one; it gets the attributes of the event, as a dict or as the
        type of its first parameter. The id of the execution is the workflow's name and the event's id.

        Crash: stored when a worker starts, or at once if one runs, and kept by the node. So events start
        executions also while no worker runs.
        """
        check_event_name(name)

        def register(function: Any) -> Any:
            workflow: WorkflowDefinition[..., Any] = (
                cast(Any, function)
                if isinstance(function, WorkflowDefinition)
                else cast(Any, self).workflow(function)
            )
            self.registry.subscribe(name, workflow)
            self.tasks.tell_watchers()
            return workflow

        return register
