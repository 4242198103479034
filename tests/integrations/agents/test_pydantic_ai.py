"""Agents of Pydantic AI in workflows: what is a step, what is tried again, what is emitted, who approves."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.exceptions import UserError
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

import holdfast as hf
from holdfast.ext.pydantic_ai import durability
from holdfast.testing import World, crash_everywhere

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)  # for runs whose records are compared
ROOT = Path(__file__).parent.parent.parent.parent


def returns_of(messages: list[ModelMessage]) -> list[Any]:
    return [
        part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)
    ]


def calling(*calls: ToolCallPart) -> FunctionModel:
    """A model that makes these calls, one a turn, and then says what came of them."""

    def decide(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turns = sum(isinstance(message, ModelResponse) for message in messages)
        if turns < len(calls):
            return ModelResponse([calls[turns]], timestamp=NOON)
        return ModelResponse([TextPart(f"got {returns_of(messages)}")], timestamp=NOON)

    return FunctionModel(decide)


def run_once(agent: Agent[Any, Any], *, url: str = "memory:", **options: Any) -> tuple[Any, list[str]]:
    app = hf.App(url)

    @app.workflow(loop="asyncio")
    async def ask(question: str) -> Any:
        return (await agent.run(question, **options)).output

    with app:
        handle = ask.with_options(id="run").start("hello")
        result = handle.result()
        return result, [step.name for step in handle.steps() if step.kind == "step"]


def test_model_requests_and_tools_are_steps_that_are_named_after_the_agent() -> None:
    agent = Agent(calling(ToolCallPart("add", {"a": 1, "b": 2})), name="helper", capabilities=[durability()])
    agent.tool_plain(add)
    assert run_once(agent) == ("got [3]", ["helper model", "helper add", "helper model"])


def add(a: int, b: int) -> int:
    return a + b


def test_the_same_agent_outside_of_a_workflow_is_a_plain_agent() -> None:
    agent = Agent(calling(ToolCallPart("add", {"a": 1, "b": 2})), name="helper", capabilities=[durability()])
    agent.tool_plain(add)
    assert agent.run_sync("hello").output == "got [3]"


def test_the_librarys_own_test_model_calls_every_tool_and_they_run_at_once() -> None:
    """Two tools in one turn wait for each other: they would never end one after the other."""
    meeting = threading.Barrier(2, timeout=30)
    agent = Agent(TestModel(), name="helper", capabilities=[durability()])

    @agent.tool_plain
    def left() -> str:
        meeting.wait()
        return "left"

    @agent.tool_plain
    def right() -> str:
        meeting.wait()
        return "right"

    result, steps = run_once(agent)
    assert result == '{"left":"left","right":"right"}'
    assert steps == ["helper model", "helper left", "helper right", "helper model"]


def test_a_run_ends_the_same_wherever_its_worker_is_killed() -> None:
    app = hf.App("memory:")
    agent = Agent(
        calling(ToolCallPart("add", {"a": 1, "b": 2}), ToolCallPart("add", {"a": 5, "b": 5})),
        name="helper",
        capabilities=[durability()],
        instructions=lambda: "a plain function, called in the workflow",
    )
    agent.tool_plain(add)

    @app.workflow(loop="asyncio")
    async def ask(question: str) -> str:
        return (await agent.run(question)).output

    proof = crash_everywhere(ask, "hello", app=app)
    assert proof.result == "got [3, 10]"
    assert proof.crashes > 10


def test_a_model_request_is_tried_again_and_a_mistake_in_the_program_is_not() -> None:
    failures = iter([ConnectionError("away"), ConnectionError("away")])

    def decide(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        for failure in failures:
            raise failure
        return ModelResponse([TextPart("at last")])

    retry = hf.Retry(attempts=3, delay=0.001)
    agent = Agent(FunctionModel(decide), name="helper", capabilities=[durability(retry=retry)])
    assert run_once(agent)[0] == "at last"

    asked: list[int] = []

    def mistake(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append(1)
        raise UserError("no such model")

    wrong = Agent(FunctionModel(mistake), name="helper", capabilities=[durability(retry=retry)])
    with pytest.raises(UserError, match="no such model"):
        run_once(wrong)
    assert len(asked) == 1


def test_a_tool_is_tried_once_unless_it_says_otherwise() -> None:
    attempts: list[str] = []
    model = calling(ToolCallPart("careful", {}), ToolCallPart("eager", {}))
    agent = Agent(model, name="helper", capabilities=[durability()])

    @agent.tool_plain(metadata={"holdfast": {"retry": hf.Retry(attempts=3, delay=0.001)}})
    def eager() -> str:
        attempts.append("eager")
        if attempts.count("eager") < 3:
            raise ConnectionError("away")
        return "done"

    @agent.tool_plain
    def careful() -> str:
        attempts.append("careful")
        return "done"

    assert run_once(agent)[0] == "got ['done', 'done']"
    assert attempts == ["careful", "eager", "eager", "eager"]


def test_a_tool_that_asks_the_model_to_try_again_has_not_failed() -> None:
    agent = Agent(calling(ToolCallPart("pick", {"n": 1}), ToolCallPart("pick", {"n": 2})), name="helper")
    durable = Agent(
        calling(ToolCallPart("pick", {"n": 1}), ToolCallPart("pick", {"n": 2})),
        name="helper",
        capabilities=[durability()],
    )

    def pick(n: int) -> int:
        if n == 1:
            raise ModelRetry("not this one")
        return n

    agent.tool_plain(pick)
    durable.tool_plain(pick)
    assert run_once(durable)[0] == agent.run_sync("hello").output == "got ['not this one', 2]"


def test_tools_get_their_context_and_outputs_are_typed() -> None:
    class Answer(BaseModel):
        words: int

    agent = Agent(
        TestModel(custom_output_args={"words": 3}),
        name="helper",
        deps_type=str,
        output_type=Answer,
        capabilities=[durability()],
    )
    seen: list[str] = []

    @agent.tool
    def look(ctx: RunContext[str]) -> str:
        seen.append(ctx.deps)
        return ctx.deps

    result, steps = run_once(agent, deps="a connection")
    assert result == {"words": 3}  # the workflow has no type for its result
    assert seen == ["a connection"]
    assert steps == ["helper model", "helper look", "helper model"]


def test_ids_of_runs_are_the_same_on_every_replay() -> None:
    app = hf.App("memory:")
    agent = Agent(calling(), name="helper", capabilities=[durability()])

    @app.workflow(loop="asyncio")
    async def ask(question: str) -> list[str]:
        first = await agent.run(question)
        second = await agent.run(question)
        return [run.all_messages()[-1].run_id or "" for run in (first, second)]

    assert crash_everywhere(ask, "hello", app=app).result == ["crash-test:run.1", "crash-test:run.2"]


def test_events_are_emitted_while_the_model_writes(tmp_path: Path) -> None:
    may_go_on = threading.Event()

    async def write(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCall]:
        yield "once "
        assert await asyncio.to_thread(may_go_on.wait, 60)  # until somebody has read that
        yield "upon a time"

    agent = Agent(
        FunctionModel(stream_function=write), name="teller", capabilities=[durability(stream="events")]
    )
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")

    @app.workflow(loop="asyncio")
    async def tell(about: str) -> str:
        return (await agent.run(about)).output

    with app:
        handle = tell.start("a frog")
        parts: list[str] = []
        for _, event in handle.stream("events"):
            if event["event_kind"] == "part_start":
                parts.append(event["part"]["content"])
                may_go_on.set()
            elif event["event_kind"] == "part_delta":
                parts.append(event["delta"]["content_delta"])
        assert "".join(parts) == handle.result() == "once upon a time"


def test_a_time_limit_of_a_run_is_a_durable_timer() -> None:
    """In a world time is virtual: nothing here takes an hour."""
    app = hf.App("memory:")
    agent = Agent(calling(ToolCallPart("wait", {})), name="helper", capabilities=[durability()])

    @agent.tool_plain(metadata={"holdfast": False})
    async def wait() -> str:  # code of the workflow
        await hf.sleep("2h")
        return "awake"

    @app.workflow(loop="asyncio")
    async def ask(question: str, limit_s: float) -> str:
        try:
            return str((await agent.run(question, timeout=limit_s)).output)
        except TimeoutError:
            return "too late"

    with World(app):
        assert app.start(ask, "hello", 3600).result() == "too late"
        assert app.start(ask, "hello", 10800).result() == "got ['awake']"


def test_a_person_approves_a_tool_call() -> None:
    app = hf.App("memory:")
    agent = Agent(
        calling(ToolCallPart("delete", {"path": "a"}), ToolCallPart("delete", {"path": "b"})),
        name="helper",
        capabilities=[durability()],
    )
    deleted: list[str] = []

    @agent.tool_plain(metadata={"holdfast": False})  # code of the workflow: it may wait for a person
    async def delete(path: str) -> str:
        if not await hf.promise(bool, name=f"delete-{path}", timeout="1d"):
            return "refused"
        return await hf.run(really_delete, path)

    def really_delete(path: str) -> str:
        deleted.append(path)
        return "deleted"

    @app.workflow(loop="asyncio")
    async def tidy(question: str) -> str:
        return (await agent.run(question)).output

    with World(app) as world:
        handle = app.start(tidy, "please", id="t")
        world.elapse("1h")
        app.resolve("t", True, name="delete-a")
        world.elapse("1h")
        app.resolve("t", False, name="delete-b")
        assert handle.result() == "got ['deleted', 'refused']"
    assert deleted == ["a"]


def test_what_is_asked_of_an_mcp_server_are_steps(tmp_path: Path) -> None:
    server = MCPToolset(
        {
            "mcpServers": {
                "clock": {"command": sys.executable, "args": [str(Path(__file__).parent / "mcp_clock.py")]}
            }
        },
        id="clock",
    )
    model = calling(ToolCallPart("time_in", {"place": "Lisbon"}))
    agent = Agent(model, name="helper", toolsets=[server], capabilities=[durability()])
    result, steps = run_once(agent, url=f"sqlite:///{tmp_path}/holdfast.db")
    assert "noon in Lisbon" in result
    assert [name for name in steps if "get_tools" not in name and "get_instructions" not in name] == [
        "helper model",
        "helper time_in",
        "helper model",
    ]


def test_a_workflow_without_asyncio_is_told_what_it_needs() -> None:
    app = hf.App("memory:")
    agent = Agent(calling(), name="helper", capabilities=[durability()])

    @app.workflow
    async def ask(question: str) -> str:
        return (await agent.run(question)).output

    with app, pytest.raises(hf.errors.NoAsyncioHere, match="loop="):
        ask.start("hello").result()


def test_importing_holdfast_imports_no_agent_library() -> None:
    libraries = ("pydantic_ai", "agents", "langgraph", "mcp")
    program = f"import sys, holdfast as hf; hf.App; print([m for m in {libraries} if m in sys.modules])"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
