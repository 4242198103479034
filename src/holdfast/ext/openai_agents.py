"""Durable agents of the OpenAI Agents SDK: model calls, function tools and MCP calls are steps.

    agent = durable(Agent(name="helper", model="gpt-5.2", tools=[weather]))

    @app.workflow(loop="asyncio")
    async def ask(question: str) -> str:
        return (await Runner.run(agent, question)).final_output

The runner is code of the workflow. What it calls outside is wrapped: the agent's model, its function tools
and its MCP servers.

1. In a workflow each of these calls is a step; outside of a workflow the wrapped agent is the plain agent.
2. Each agent is wrapped by itself: those that it hands over to, and those that it uses as tools, too. An
   agent that is a tool runs as code of the workflow, so that its own calls are steps.
3. Guardrails, hooks and instructions are code of the workflow: deterministic.
"""

import copy
from collections.abc import AsyncIterator
from functools import cache
from types import GenericAlias
from typing import Any, Final, cast

from holdfast.ext.agent_steps import StepChoices, cannot_be_recorded, in_workflow, model_retry, perform
from holdfast.ext.optional import load
from holdfast.payloads.durations import Duration
from holdfast.steps.retry import Retry
from holdfast.workflow.emitting import emit

_extra: Final = "openai-agents"
_structured: Final = ("ToolOutputText", "ToolOutputImage", "ToolOutputFileContent")


def durable(
    agent: Any,
    *,
    retry: Retry | None = model_retry,
    timeout: Duration | None = None,
    tools: StepChoices | None = None,
    mcp: StepChoices | None = None,
    stream: str | None = None,
    provider: Any = None,
) -> Any:
    """The same agent, whose calls in workflows are steps.

    `retry`, `timeout`: of a model call. `tools`: options of the calls of function tools, by default one try
    without a time limit. `mcp`: options of what is asked of its MCP servers; like `retry` if not given.
    `stream`: the stream to which the events of the model are emitted as JSON, while they come. `provider`:
    finds a model that is given by its name; the SDK's own if not given.

    Crash: a call that was recorded is not repeated; one that was under way is performed again.

    >>> agent = durable(Agent(name="helper", tools=[weather]), stream="tokens")
    """
    given: StepChoices = {"retry": retry, "timeout": timeout}
    wrapped: dict[str, Any] = {
        "model": _model_class()(agent, given, stream, provider),
        "tools": [_durable_tool(agent.name, tool, tools or {}) for tool in agent.tools],
    }
    if agent.mcp_servers:
        options = given if mcp is None else mcp
        wrapped["mcp_servers"] = [_server_class()(each, options) for each in agent.mcp_servers]
    return agent.clone(**wrapped)


class _DurableModel:
    """Beside the SDK's `Model`."""

    def __init__(self, agent: Any, options: StepChoices, stream: str | None, provider: Any) -> None:
        self._given = agent.model
        self._name = f"{agent.name} model"
        self._options = options
        self._stream = stream
        self._provider = provider

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        if not in_workflow():
            return await self._model().get_response(*args, **kwargs)

        async def call() -> Any:
            if self._stream is None:
                response = await self._model().get_response(*args, **kwargs)
            else:
                response = await self._stream_whole(self._stream, args, kwargs)
            return _dump(_adapter("ModelResponse"), response)

        return _adapter("ModelResponse").validate_python(await perform(self._name, call, self._options))

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """In a workflow the events come when the step is over, and without those that only tell of a part:
        nobody there could see them earlier. `stream=` shows all of them to whoever reads that stream."""
        if not in_workflow():
            async for event in self._model().stream_response(*args, **kwargs):
                yield event
            return

        async def call() -> Any:
            events = [event async for event in self._shown(self._stream, args, kwargs)]
            return [_dump(_adapter("event"), each) for each in events if not each.type.endswith(".delta")]

        for event in await perform(self._name, call, self._options):
            yield _adapter("event").validate_python(event)

    async def _shown(self, stream: str | None, args: Any, kwargs: Any) -> AsyncIterator[Any]:
        async for event in self._model().stream_response(*args, **kwargs):
            if stream is not None:
                await emit(stream, _dump(_adapter("event"), event))
            yield event

    async def _stream_whole(self, stream: str, args: Any, kwargs: Any) -> Any:
        items: list[Any] = []
        async for event in self._shown(stream, args, kwargs):
            if event.type == "response.output_item.done":
                items.append(event.item)
            elif event.type == "response.completed":
                return _whole(event.response, items)
            elif event.type in ("response.failed", "response.incomplete", "error"):
                break
        sdk = load("agents", _extra)
        raise sdk.ModelBehaviorError("The stream of the model ended without a response")

    def _model(self) -> Any:
        sdk = load("agents", _extra)
        if isinstance(self._given, sdk.Model):
            return self._given
        provider = self._provider or sdk.MultiProvider()
        return provider.get_model(self._given)

    async def close(self) -> None:
        if hasattr(self._given, "close"):
            await self._given.close()


class _DurableServer:
    """Beside the SDK's `MCPServer`: what is asked of a server is a step. If nobody has connected it in this
    process, the step does, for its own length."""

    def __init__(self, server: Any, options: StepChoices) -> None:
        self.__dict__.update(cast(dict[str, Any], vars(server)))
        self._server = server
        self._options = options

    @property
    def name(self) -> str:
        found: str = self._server.name
        return found

    @property
    def cached_tools(self) -> Any:
        return self._server.cached_tools

    async def connect(self) -> None:
        if not in_workflow():
            await self._server.connect()

    async def cleanup(self) -> None:
        if not in_workflow():
            await self._server.cleanup()

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> Any:
        return await self._ask("list_tools", "tools", run_context, agent)

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> Any:
        return await self._ask("call_tool", "CallToolResult", tool_name, arguments, meta, name=tool_name)

    async def list_prompts(self) -> Any:
        return await self._ask("list_prompts", "ListPromptsResult")

    async def get_prompt(self, name: str, arguments: Any = None) -> Any:
        return await self._ask("get_prompt", "GetPromptResult", name, arguments)

    async def _ask(self, method: str, returns: str, *args: Any, name: str | None = None) -> Any:
        if not in_workflow():
            return await getattr(self._server, method)(*args)

        async def call() -> Any:
            is_ours = getattr(self._server, "session", self) is None
            if is_ours:
                await self._server.connect()
            try:
                return _dump(_adapter(returns), await getattr(self._server, method)(*args))
            finally:
                if is_ours:
                    await self._server.cleanup()

        step = f"{self.name} {name or method}"
        return _adapter(returns).validate_python(await perform(step, call, self._options))


def _durable_tool(agent: str, tool: Any, options: StepChoices) -> Any:
    """Only function tools are called here: the others run where the model does."""
    sdk = load("agents", _extra)
    if not isinstance(tool, sdk.FunctionTool) or getattr(tool, "_is_agent_tool", False):
        return tool
    invoke = tool.on_invoke_tool

    async def on_invoke_tool(context: Any, arguments: str) -> Any:
        if not in_workflow():
            return await invoke(context, arguments)

        async def call() -> Any:
            return _dump_output(await invoke(context, arguments))

        return _load_output(await perform(f"{agent} {tool.name}", call, options))

    wrapped = copy.copy(tool)
    wrapped.on_invoke_tool = on_invoke_tool
    return wrapped


def _whole(response: Any, items: list[Any]) -> Any:
    sdk = load("agents", _extra)
    usage = sdk.Usage(requests=1)
    if response.usage is not None:
        usage = sdk.Usage(
            requests=1,
            input_tokens=response.usage.input_tokens,
            output_tokens=response.usage.output_tokens,
            total_tokens=response.usage.total_tokens,
            input_tokens_details=response.usage.input_tokens_details,
            output_tokens_details=response.usage.output_tokens_details,
        )
    return sdk.ModelResponse(output=response.output or items, usage=usage, response_id=response.id)


# --- what is recorded ------------------------------------------------------------------------------------


def _dump(adapter: Any, value: Any) -> Any:
    try:
        return adapter.dump_python(value, mode="json", by_alias=True, exclude_unset=True)
    except Exception as error:  # the call is paid for: another try would be no better
        raise cannot_be_recorded(error) from error


def _dump_output(output: Any) -> Any:
    """Texts and plain JSON as they are; the SDK's structured outputs with their class; of anything else the
    text, which is all that the SDK would take of it."""
    sdk = load("agents", _extra)
    if isinstance(output, list):
        return {"list": _dump_each(output)}
    for name in _structured:
        if isinstance(output, getattr(sdk, name)):
            return {"class": name, "value": output.model_dump(mode="json", exclude_unset=True)}
    return {"value": output if isinstance(output, str | int | float | bool | None) else str(output)}


def _dump_each(outputs: Any) -> list[Any]:
    return [_dump_output(each) for each in outputs]


def _load_output(recorded: Any) -> Any:
    if "list" in recorded:
        return [_load_output(each) for each in recorded["list"]]
    if "class" in recorded:
        return getattr(load("agents", _extra), recorded["class"])(**recorded["value"])
    return recorded["value"]


@cache
def _adapter(name: str) -> Any:
    pydantic = load("pydantic", _extra)
    if name == "ModelResponse":
        return pydantic.TypeAdapter(load("agents", _extra).ModelResponse)
    if name == "event":
        return pydantic.TypeAdapter(load("agents.items", _extra).TResponseStreamEvent)
    types = load("mcp.types", _extra)
    if name == "tools":
        return pydantic.TypeAdapter(GenericAlias(list, (types.Tool,)))
    return pydantic.TypeAdapter(getattr(types, name))


@cache
def _model_class() -> Any:
    return type("DurableModel", (_DurableModel, load("agents", _extra).Model), {})


@cache
def _server_class() -> Any:
    return type("DurableServer", (_DurableServer, load("agents.mcp", _extra).MCPServer), {})
