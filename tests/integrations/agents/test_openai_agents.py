"""Agents of the OpenAI Agents SDK in workflows: what is a step, what is tried again, emitted and approved."""

import sys
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, RunState, ToolOutputText, function_tool, set_tracing_disabled
from agents.mcp import MCPServerStdio
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call

import holdfast as hf
from holdfast.ext.openai_agents import durable
from holdfast.testing import World, crash_everywhere

set_tracing_disabled(True)


def outputs_of(call: ModelCall) -> list[Any]:
    items: list[Any] = [] if isinstance(call.input, str) else [*call.input]
    return [item["output"] for item in items if item.get("type") == "function_call_output"]


def calling(*calls: tuple[str, dict[str, Any]], turns: int = 100) -> ScriptedModel:
    """A model that makes these calls, one a turn, and then says what came of them. It reads the conversation,
    so a new process goes on with it where the old one was."""

    def decide(call: ModelCall) -> Any:
        found = outputs_of(call)
        if len(found) < len(calls):
            name, arguments = calls[len(found)]
            return [function_call(name, arguments, call_id=f"call-{len(found)}")]
        return [assistant_message(f"got {found}")]

    return ScriptedModel([ModelStep.respond(decide)] * turns)


@function_tool
def add(a: int, b: int) -> int:
    return a + b


def run_once(agent: Any, url: str = "memory:") -> tuple[Any, list[str]]:
    app = hf.App(url)

    @app.workflow(loop="asyncio")
    async def ask(question: str) -> Any:
        return (await Runner.run(agent, question)).final_output

    with app:
        handle = ask.with_options(id="run").start("hello")
        result = handle.result()
        return result, [step.name for step in handle.steps() if step.kind == "step"]


def test_model_calls_and_function_tools_are_steps_that_are_named_after_the_agent() -> None:
    agent = durable(Agent(name="helper", model=calling(("add", {"a": 1, "b": 2})), tools=[add]))
    assert run_once(agent) == ("got ['3']", ["helper model", "helper add", "helper model"])


async def test_the_same_agent_outside_of_a_workflow_is_a_plain_agent() -> None:
    agent = durable(Agent(name="helper", model=calling(("add", {"a": 1, "b": 2})), tools=[add]))
    assert (await Runner.run(agent, "hello")).final_output == "got ['3']"


def test_a_run_ends_the_same_wherever_its_worker_is_killed() -> None:
    app = hf.App("memory:")
    model = calling(("add", {"a": 1, "b": 2}), ("add", {"a": 5, "b": 5}), turns=10_000)
    agent = durable(Agent(name="helper", model=model, tools=[add]))

    @app.workflow(loop="asyncio")
    async def ask(question: str) -> str:
        return str((await Runner.run(agent, question)).final_output)

    proof = crash_everywhere(ask, "hello", app=app)
    assert proof.result == "got ['3', '10']"
    assert proof.crashes > 10


def test_a_model_call_is_tried_again() -> None:
    steps = [ConnectionError("away"), ConnectionError("away"), [assistant_message("at last")]]
    retry = hf.Retry(attempts=3, delay=0.001)
    agent = durable(Agent(name="helper", model=ScriptedModel(steps)), retry=retry)
    assert run_once(agent) == ("at last", ["helper model"])


def test_a_tool_is_tried_again_only_if_that_is_wanted() -> None:
    failures = [ConnectionError("away")]

    @function_tool(failure_error_function=None)
    def shaky() -> str:
        for failure in [*failures]:
            failures.clear()
            raise failure
        return "done"

    agent = Agent(name="helper", model=calling(("shaky", {})), tools=[shaky])
    eager = durable(agent, tools={"retry": hf.Retry(attempts=2, delay=0.001)})
    assert run_once(eager)[0] == "got ['done']"
    failures.append(ConnectionError("away again"))
    with pytest.raises(Exception, match="away again"):
        run_once(durable(agent))


def test_structured_outputs_of_tools_come_back_as_they_were() -> None:
    @function_tool
    def picture() -> ToolOutputText:
        return ToolOutputText(text="a cat")

    agent = Agent(name="helper", model=calling(("picture", {})), tools=[picture])
    result, _ = run_once(durable(agent))
    assert result == "got [[{'type': 'input_text', 'text': 'a cat'}]]"


def test_events_of_the_model_are_emitted_and_the_answer_is_the_same(tmp_path: Path) -> None:
    script = [[function_call("add", {"a": 1, "b": 2}, call_id="c")], [assistant_message("it is three")]]
    agent = durable(Agent(name="helper", model=ScriptedModel(script), tools=[add]), stream="tokens")
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")

    @app.workflow(loop="asyncio")
    async def ask(question: str) -> str:
        return str((await Runner.run(agent, question)).final_output)

    with app:
        handle = ask.start("hello")
        assert handle.result() == "it is three"
        events = [event for _, event in handle.stream("tokens")]
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert text == "it is three"
    assert [event["type"] for event in events].count("response.completed") == 2


def test_a_streamed_run_works_in_a_workflow_too() -> None:
    app = hf.App("memory:")
    agent = durable(Agent(name="helper", model=calling(("add", {"a": 1, "b": 2})), tools=[add]))

    @app.workflow(loop="asyncio")
    async def ask(question: str) -> list[Any]:
        run = Runner.run_streamed(agent, question)
        kinds = [event.type async for event in run.stream_events()]
        return [run.final_output, "run_item_stream_event" in kinds]

    with app:
        assert ask.start("hello").result() == ["got ['3']", True]


def test_an_agent_hands_over_to_another_and_uses_one_as_a_tool() -> None:
    poet = durable(Agent(name="poet", model=ScriptedModel([[assistant_message("a rhyme")]])))
    clerk = durable(
        Agent(
            name="clerk",
            model=ScriptedModel(
                [[function_call("ask_poet", {"input": "rhyme"}, call_id="p")], [assistant_message("done")]]
            ),
            tools=[poet.as_tool("ask_poet", "writes")],
        )
    )
    triage = durable(
        Agent(
            name="triage",
            model=ScriptedModel([[function_call("transfer_to_clerk", {}, call_id="h")]]),
            handoffs=[clerk],
        )
    )
    result, steps = run_once(triage)
    assert result == "done"
    assert steps == [
        "triage model",
        "clerk model",
        "poet model",
        "clerk model",
    ]  # and no step `clerk ask_poet`


def test_a_person_approves_a_tool_call_by_the_librarys_own_means() -> None:
    app = hf.App("memory:")
    deleted: list[str] = []

    @function_tool(needs_approval=True)
    def delete(path: str) -> str:
        deleted.append(path)
        return "deleted"

    model = calling(("delete", {"path": "a"}), turns=1_000)
    agent = durable(Agent(name="helper", model=model, tools=[delete]))

    @app.workflow(loop="asyncio")
    async def tidy(question: str) -> str:
        result = await Runner.run(agent, question)
        while result.interruptions:
            state: RunState[Any, Any] = result.to_state()
            for call in result.interruptions:
                if await hf.promise(bool, name="approval", timeout="1d"):
                    state.approve(call)
                else:
                    state.reject(call)
            result = await Runner.run(agent, state)
        return str(result.final_output)

    with World(app) as world:
        handle = app.start(tidy, "please", id="t")
        world.elapse("1h")
        assert deleted == []
        app.resolve("t", True, name="approval")
        assert handle.result() == "got ['deleted']"
    assert deleted == ["a"]


def test_what_is_asked_of_an_mcp_server_are_steps(tmp_path: Path) -> None:
    program = str(Path(__file__).parent / "mcp_clock.py")
    server = MCPServerStdio(
        {"command": sys.executable, "args": [program]}, name="clock", client_session_timeout_seconds=60
    )
    model = calling(("time_in", {"place": "Lisbon"}))
    agent = durable(Agent(name="helper", model=model, mcp_servers=[server]))
    result, steps = run_once(agent, f"sqlite:///{tmp_path}/holdfast.db")
    assert "noon in Lisbon" in result
    assert steps == ["clock list_tools", "helper model", "clock time_in", "clock list_tools", "helper model"]
