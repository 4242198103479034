"""LangGraph: nodes as steps of a workflow, and a checkpointer and a store on promises.

    graph = durable(builder).compile()

    @app.workflow(loop="asyncio")
    async def research(topic: str) -> str:
        return (await graph.ainvoke({"topic": topic}))["report"]

In a workflow the graph itself (which node is next, how states are merged) is code of the workflow, and each
node is a step. Outside of workflows, `saver(app)` and `store(app)` keep what LangGraph keeps.

1. What a node returns is recorded, encoded by LangGraph's serializer. So is that it interrupts.
2. Edges, reducers and routing functions are code of the workflow: deterministic, and called on its thread.
3. A subgraph that is a node is one step. To have its nodes as steps, call it from the workflow.
"""

from base64 import b64decode, b64encode
from functools import cache
from typing import Any

from holdfast.app import App
from holdfast.ext.agent_steps import (
    StepChoices,
    cannot_be_recorded,
    in_workflow,
    model_retry,
    perform,
)
from holdfast.ext.langgraph_checkpoints import EXTRA, saver_class
from holdfast.ext.langgraph_items import store_class
from holdfast.ext.optional import load
from holdfast.payloads.durations import Duration
from holdfast.steps.retry import Retry


def durable(
    builder: Any,
    *,
    retry: Retry | None = model_retry,
    timeout: Duration | None = None,
    nodes: dict[str, StepChoices] | None = None,
    serde: Any = None,
) -> Any:
    """A `StateGraph` whose nodes are steps when the graph runs in a workflow. Compile it afterwards.

    `retry`, `timeout`: of a node, together with all that it calls. `nodes`: the same by the name of a node;
    it comes before. `serde`: encodes what nodes return; LangGraph's own if not given.

    Crash: a node that was recorded is not run again; one that was under way is. Put a model call and the
    tools that it asks for into nodes of their own, and none is paid for twice.

    >>> graph = durable(StateGraph(State).add_node(plan).add_edge(START, "plan")).compile()
    """
    options: StepChoices = {"retry": retry, "timeout": timeout}
    encoder = serde or load("langgraph.checkpoint.serde.jsonplus", EXTRA).JsonPlusSerializer()
    for name, spec in builder.nodes.items():
        given: StepChoices = {**options, **(nodes or {}).get(name, {})}
        spec.runnable = _beside_runnable(_Node)(name, spec.runnable, given, encoder)
    for branches in builder.branches.values():
        for name, branch in branches.items():
            branches[name] = branch._replace(path=_beside_runnable(_Route)(branch.path))
    return builder


def saver(app: App, *, serde: Any = None) -> Any:
    """A checkpointer: `builder.compile(checkpointer=saver(app))`.

    Threads are kept in the store of the app, until `delete_thread`. Use it outside of workflows, and with
    `durability="sync"` where a node must not run again that has run.

    >>> graph = builder.compile(checkpointer=saver(app), store=store(app))
    """
    return saver_class()(app, serde)


def store(app: App) -> Any:
    """A store for what an agent remembers across threads: `builder.compile(store=store(app))`.

    Outside of workflows, and in the nodes of a durable graph. There is no search by meaning.
    """
    return store_class()(app)


class _Node:
    """Beside `Runnable`: a node that is a step."""

    def __init__(self, name: str, runnable: Any, options: StepChoices, encoder: Any) -> None:
        self.name = name
        self._runnable = runnable
        self._options = options
        self._encoder = encoder

    def invoke(self, input: Any, config: Any = None, **rest: Any) -> Any:  # noqa: A002
        return self._runnable.invoke(input, config, **rest)

    async def ainvoke(self, input: Any, config: Any = None, **rest: Any) -> Any:  # noqa: A002
        if not in_workflow():
            return await self._runnable.ainvoke(input, config, **rest)
        errors = load("langgraph.errors", EXTRA)

        async def call() -> Any:
            try:
                found = await self._runnable.ainvoke(input, config, **rest)
            except errors.GraphBubbleUp as bubble:  # an interrupt, or a command for the graph above
                return [type(bubble).__name__, *self._dump(bubble.args)]
            return [None, *self._dump(found)]

        bubble, kind, data = await perform(self.name, call, self._options)
        found = self._encoder.loads_typed((kind, b64decode(data)))
        if bubble is not None:
            raise getattr(errors, bubble)(*found)
        return found

    def _dump(self, value: Any) -> tuple[str, str]:
        try:
            kind, data = self._encoder.dumps_typed(value)
        except Exception as error:  # what it called is paid for: another try would be no better
            raise cannot_be_recorded(error) from error
        return kind, b64encode(data).decode()


class _Route:
    """Beside `Runnable`: a routing function, called where the graph is. LangGraph would take a thread."""

    def __init__(self, path: Any) -> None:
        self.name = getattr(path, "name", None)
        self._path = path

    def invoke(self, input: Any, config: Any = None, **rest: Any) -> Any:  # noqa: A002
        return self._path.invoke(input, config, **rest)

    async def ainvoke(self, input: Any, config: Any = None, **rest: Any) -> Any:  # noqa: A002
        if in_workflow() and getattr(self._path, "func", None) is not None:
            return self._path.invoke(input, config, **rest)
        return await self._path.ainvoke(input, config, **rest)


@cache
def _beside_runnable(mixin: type[Any]) -> Any:
    return type(mixin.__name__, (mixin, load("langchain_core.runnables", EXTRA).Runnable), {})
