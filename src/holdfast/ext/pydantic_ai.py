"""Durable agents of Pydantic AI: model requests, tools and MCP calls are steps. For `pydantic-ai` 2.

    agent = Agent("openai:gpt-5.2", name="helper", capabilities=[durability()])

    @app.workflow(loop="asyncio")
    async def ask(question: str) -> str:
        return (await agent.run(question)).output

The library has an interface for engines like ours, and this is one of them: it tells what is a unit of work
and encodes its result; we perform and record it. The agent's own loop is code of the workflow.

1. A run in a workflow is durable, and one outside of a workflow is what it would be without this.
2. Ids of runs and the clock of a run's time limit are the same on every replay.
3. Functions of the agent that are no tools (instructions, output functions, validators) are code of the
   workflow: deterministic, and called on its thread.
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, cast

from msgspec.structs import replace

from holdfast.ext.agent_steps import (
    Numbers,
    StepChoices,
    cannot_be_recorded,
    in_workflow,
    model_retry,
    perform,
)
from holdfast.ext.optional import load
from holdfast.payloads.durations import Duration
from holdfast.steps.retry import Retry
from holdfast.workflow.emitting import emit
from holdfast.workflow.functions import current

_extra: Final = "pydantic-ai"
_epoch: Final = datetime(1970, 1, 1, tzinfo=UTC)


def durability(
    *,
    retry: Retry | None = model_retry,
    timeout: Duration | None = None,
    tools: StepChoices | None = None,
    mcp: StepChoices | None = None,
    stream: str | None = None,
    models: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Any:
    """A capability for `Agent(capabilities=[...])`, by which its runs in workflows are durable.

    `retry`, `timeout`: of a model request. `tools`: options of tool calls, by default one try without a time
    limit; a tool's own `metadata={"holdfast": {"retry": ...}}` comes before them, and `{"holdfast": False}`
    makes a tool code of the workflow. `mcp`: options of what is asked of MCP servers; like `retry` if not
    given. `stream`: the stream to which the events of a run are emitted as JSON, while they happen. `models`:
    others than the agent's that a run may choose. `name`: instead of the agent's; steps are recorded under
    it, so it must not change while executions run.

    Crash: a call that was recorded is not repeated; one that was under way is performed again.

    >>> agent = Agent("openai:gpt-5.2", name="helper", capabilities=[durability(stream="events")])
    """
    fatal = _fatal()
    given: StepChoices = {"retry": _giving_up(retry, fatal), "timeout": timeout}
    per_mcp: StepChoices = given if mcp is None else {**mcp, "retry": _giving_up(mcp.get("retry"), fatal)}
    per_tool: StepChoices = {} if tools is None else {**tools}
    handler = None if stream is None else _emitting(stream)
    return _capability()(
        _Options(given, per_tool, per_mcp), models=models, event_stream_handler=handler, name=name
    )


class _Options:
    def __init__(self, model: StepChoices, tool: StepChoices, mcp: StepChoices) -> None:
        self.model = model
        self.tool = tool
        self.mcp = mcp


class _Durability:
    """Beside `BaseDurabilityCapability`, whose hooks these are."""

    name: str
    engine_spec: Any

    def __init__(self, options: _Options, **rest: Any) -> None:
        cast(Any, super()).__init__(**rest)
        self._options = options
        self._runs = Numbers()

    @property
    def in_durable_context(self) -> bool:
        return in_workflow()

    def get_durable_operation_backend(self) -> Any:
        durable = load("pydantic_ai.durable_exec", _extra)
        options = self._options

        def for_tool(operation: Any, tool: Any, tool_name: str) -> Any:
            base = self._toolset_base_config(operation.toolset_kind)
            return cast(Any, self)._build_resolve_tool_config(base)(tool, tool_name)

        config = durable.RoleBasedOperationConfig(
            model=options.model, event={}, capability={}, tool=options.tool, resolve_tool=for_tool
        )
        return _backend()(namer=_Names(self.name), config=config)

    def _toolset_base_config(self, kind: str) -> StepChoices:
        return self._options.mcp if kind == "mcp" else self._options.tool

    def get_default_run_id(self) -> str | None:
        return f"{current().id}:run.{self._runs.next()}" if in_workflow() else None

    def get_default_conversation_id(self, run_id: str) -> str | None:
        if not in_workflow():
            return None
        found: str = load("pydantic_ai.durable_exec", _extra).conversation_id_from_run_id(run_id)
        return found

    def get_run_clock(self) -> Callable[[], datetime] | None:
        """Only differences of it count."""
        if not in_workflow():
            return None
        loop = asyncio.get_running_loop()
        return lambda: _epoch + timedelta(seconds=loop.time())

    async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
        if not in_workflow():
            return await handler()
        with load("pydantic_ai._utils", _extra).disable_threads():
            return await cast(Any, super()).wrap_run(ctx, handler=handler)


class _Backend:
    """Beside `CallableOperationBackend`: a unit of work is a step."""

    async def execute(
        self, *, operation_id: Any, name: str, body: Any, cache_key: Any, config: StepChoices | None
    ) -> Any:
        return await perform(name, _with_threads(body), config or {})


class _Names:
    """What steps are called: `helper model`, `helper weather`. What is rarer has the library's own name."""

    def __init__(self, agent: str) -> None:
        durable = load("pydantic_ai.durable_exec", _extra)
        self._agent = agent
        self._request, self._call = durable.ModelRequestId, durable.ToolsetCallToolId
        self._others = durable.JournalOperationNamer(agent)

    def operation_name(self, operation_id: Any) -> str:
        if isinstance(operation_id, self._request):
            model = getattr(operation_id, "model_id", None)
            return f"{self._agent} model" if model in (None, "default") else f"{self._agent} model {model}"
        found: str = self._others.operation_name(operation_id)
        return found

    def invocation_name(self, operation_id: Any, *, label: str | None) -> Any:
        named = self._others.invocation_name(operation_id, label=label)
        if isinstance(operation_id, self._request):
            return dataclasses.replace(named, operation_name=self.operation_name(operation_id))
        if isinstance(operation_id, self._call) and label:
            return dataclasses.replace(named, operation_name=f"{self._agent} {label}")
        return named


def _with_threads(body: Any) -> Any:
    """A step is free to use threads; what is said about them in the workflow does not count there."""

    async def outside() -> Any:
        threads = load("pydantic_ai._utils", _extra)._disable_threads
        token = threads.set(False)
        try:
            return await body()
        finally:
            threads.reset(token)

    return outside


def _emitting(stream: str) -> Any:
    async def emit_events(ctx: Any, events: AsyncIterable[Any]) -> None:
        adapter = _events()
        async for event in events:
            await emit(stream, adapter.dump_python(event, mode="json"))

    return emit_events


def _giving_up(retry: Retry | None, fatal: tuple[type[Exception], ...]) -> Retry | None:
    """Without another try for what is wrong in the program."""
    if retry is None:
        return None
    own = retry.give_up_on if isinstance(retry.give_up_on, tuple) else (retry.give_up_on,)
    return replace(retry, give_up_on=(*own, *fatal))


def _fatal() -> tuple[type[Exception], ...]:
    exceptions = load("pydantic_ai.exceptions", _extra)
    return (exceptions.UserError, exceptions.UsageLimitExceeded)


@cache
def _events() -> Any:
    messages = load("pydantic_ai.messages", _extra)
    return load("pydantic", _extra).TypeAdapter(messages.AgentStreamEvent)


@cache
def _capability() -> Any:
    durable = load("pydantic_ai.durable_exec", _extra)
    spec = durable.DurabilityEngineSpec(
        engine_name="Holdfast",
        durable_unit_noun="step",
        durable_container_noun="workflow",
        codec=durable.JSON_CODEC,
        serialization_failure=cannot_be_recorded,
        toolset_lifecycles={
            "function": "enter-never",
            "mcp": "enter-outside-durable",
            "dynamic": "enter-never",
        },
        tool_config_key="holdfast",
    )
    return type("HoldfastDurability", (_Durability, durable.BaseDurabilityCapability), {"engine_spec": spec})


@cache
def _backend() -> Any:
    durable = load("pydantic_ai.durable_exec", _extra)
    return type("HoldfastBackend", (_Backend, durable.CallableOperationBackend), {})
