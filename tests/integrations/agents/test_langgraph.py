"""Graphs of LangGraph: nodes as steps of a workflow, checkpoints and items as promises."""

import asyncio
import contextlib
import operator
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send, interrupt

import holdfast as hf
from holdfast.ext.langgraph import durable, saver, store
from holdfast.ext.langgraph_records import part_bytes_max
from holdfast.testing import World, crash_everywhere
from tests.processes import Server, environment

ROOT = Path(__file__).parent.parent.parent.parent
THREAD: Any = {"configurable": {"thread_id": "thread-1"}}


class State(TypedDict):
    number: int
    log: Annotated[list[str], operator.add]


def plan(state: State) -> Any:
    return {"number": state["number"] + 1, "log": [f"plan {state['number']}"]}


def act(state: State) -> Any:
    return {"log": [f"act {state['number']}"]}


def route(state: State) -> str:
    return "plan" if state["number"] < 3 else END


def loop() -> StateGraph[State]:
    builder = StateGraph(State)
    builder.add_node(plan)
    builder.add_node(act)
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "act")
    builder.add_conditional_edges("act", route, ["plan", END])
    return builder


LOG = ["plan 0", "act 1", "plan 1", "act 2", "plan 2", "act 3"]


def test_nodes_are_steps_and_edges_are_code_of_the_workflow() -> None:
    app = hf.App("memory:")
    graph = durable(loop()).compile()

    @app.workflow(loop="asyncio")
    async def run(number: int) -> list[str]:
        return (await graph.ainvoke({"number": number, "log": []}))["log"]

    with app:
        handle = run.start(0)
        assert handle.result() == LOG
        assert [step.name for step in handle.steps()] == ["plan", "act"] * 3


async def test_outside_of_workflows_the_graph_is_what_it_was() -> None:
    graph = durable(loop()).compile()
    assert graph.invoke({"number": 0, "log": []})["log"] == LOG
    assert (await graph.ainvoke({"number": 0, "log": []}))["log"] == LOG


def test_a_graph_ends_the_same_wherever_its_worker_is_killed() -> None:
    app = hf.App("memory:")

    def each(state: State) -> Any:
        return [Send("act", {"number": number, "log": []}) for number in range(3)]

    builder = StateGraph(State)
    builder.add_node(plan)
    builder.add_node(act)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", each, ["act"])
    graph = durable(builder).compile()

    @app.workflow(loop="asyncio")
    async def run(number: int) -> list[str]:
        return (await graph.ainvoke({"number": number, "log": []}))["log"]

    proof = crash_everywhere(run, 0, app=app)
    assert proof.result == ["plan 0", "act 0", "act 1", "act 2"]
    assert proof.crashes > 10


def test_a_node_is_tried_again_and_its_messages_come_back_as_messages() -> None:
    class Chat(TypedDict):
        messages: Annotated[list[AnyMessage], operator.add]

    failures = [ConnectionError("away")]

    def answer(state: Chat) -> Any:
        for failure in [*failures]:
            failures.clear()
            raise failure
        return {"messages": [AIMessage(f"you said {state['messages'][-1].content}", id="a")]}

    builder = StateGraph(Chat)
    builder.add_node(answer)
    builder.add_edge(START, "answer")
    graph = durable(builder, retry=hf.Retry(attempts=2, delay=0.001)).compile()
    app = hf.App("memory:")

    @app.workflow(loop="asyncio")
    async def run(text: str) -> list[str]:
        last = (await graph.ainvoke({"messages": [HumanMessage(text)]}))["messages"][-1]
        return [type(last).__name__, last.content, last.id]

    with app:
        assert run.start("hello").result() == ["AIMessage", "you said hello", "a"]


def test_commands_lead_on_and_a_person_is_asked_by_an_interrupt() -> None:
    def ask(state: State) -> Any:
        answer = interrupt({"may I?": state["number"]})
        return Command(update={"log": [f"they said {answer}"]}, goto="plan")

    builder = StateGraph(State)
    builder.add_node(ask, destinations=("plan",))
    builder.add_node(plan)
    builder.add_edge(START, "ask")
    durable(builder)
    app = hf.App("memory:")

    @app.workflow(loop="asyncio")
    async def run(number: int) -> list[str]:
        graph = builder.compile(checkpointer=InMemorySaver())
        state: Any = await graph.ainvoke({"number": number, "log": []}, THREAD)
        assert state["__interrupt__"][0].value == {"may I?": 7}
        answer = await hf.promise(str, name="answer", timeout="2d")
        return (await graph.ainvoke(Command(resume=answer), THREAD))["log"]

    with World(app) as world:
        handle = app.start(run, 7, id="r")
        world.elapse("1d")
        app.resolve("r", "yes", name="answer")
        assert handle.result() == ["they said yes", "plan 7"]


def test_in_a_workflow_the_checkpointer_of_an_app_is_refused() -> None:
    app = hf.App("memory:")
    graph = durable(loop()).compile(checkpointer=saver(app))

    @app.workflow(loop="asyncio")
    async def run(number: int) -> list[str]:
        return (await graph.ainvoke({"number": number, "log": []}, THREAD))["log"]

    with app, pytest.raises(hf.errors.CheckpointsInWorkflow, match="InMemorySaver"):
        run.start(0).result()


# --- checkpoints -----------------------------------------------------------------------------------------


async def test_the_checkpointer_passes_langgraphs_own_conformance_suite(tmp_path: Path) -> None:
    folders = iter(range(1000))

    @checkpointer_test(name="holdfast")
    async def made() -> AsyncIterator[Any]:
        async with hf.App(f"sqlite:///{tmp_path}/{next(folders)}.db") as app:
            yield saver(app)

    report = await validate(made)
    passed = {name: result.passed for name, result in report.results.items() if result.detected}
    assert {*passed} == {"put", "put_writes", "get_tuple", "list", "delete_thread", "copy_thread"}
    assert all(passed.values()), report.results


@pytest.fixture(params=["sqlite", "memory", "http"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[hf.App]:
    """A file, nothing that is kept, and a server."""
    with contextlib.ExitStack() as stack:
        if request.param == "http":
            url = stack.enter_context(Server(tmp_path)).url
        else:
            url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/holdfast.db"
        yield stack.enter_context(hf.App(url, worker=False))


def test_a_thread_goes_on_in_another_call_and_looks_back_as_with_the_saver_in_memory(app: hf.App) -> None:
    def histories(checkpointer: Any) -> list[Any]:
        graph = loop().compile(checkpointer=checkpointer)
        graph.invoke({"number": 0, "log": []}, THREAD)
        graph.invoke({"number": 1, "log": ["again"]}, THREAD)
        past = [*graph.get_state_history(THREAD)]
        graph.update_state(past[3].config, {"log": ["another way"]})
        graph.invoke(None, past[3].config)
        return [
            (state.values, state.next, state.metadata["step"]) for state in graph.get_state_history(THREAD)
        ]

    assert histories(saver(app)) == histories(InMemorySaver())


def test_an_interrupt_is_answered_in_another_call(app: hf.App) -> None:
    def ask(state: State) -> Any:
        return {"log": [interrupt("may I?")]}

    builder = StateGraph(State).add_node(ask).add_edge(START, "ask")
    graph = builder.compile(checkpointer=saver(app))
    assert graph.invoke({"number": 0, "log": []}, THREAD)["__interrupt__"][0].value == "may I?"
    assert graph.invoke(Command(resume="yes"), THREAD)["log"] == ["yes"]


def test_a_value_that_is_too_long_for_one_promise_is_kept_in_parts(app: hf.App) -> None:
    long = "x" * (3 * part_bytes_max)

    def write(state: State) -> Any:
        return {"log": [long]}

    builder = StateGraph(State).add_node(write).add_edge(START, "write")
    graph = builder.compile(checkpointer=saver(app))
    graph.invoke({"number": 0, "log": []}, THREAD, durability="sync")
    assert loop_state(app, builder) == [long]


def loop_state(app: hf.App, builder: StateGraph[State]) -> list[str]:
    found: list[str] = builder.compile(checkpointer=saver(app)).get_state(THREAD).values["log"]
    return found


def test_a_thread_that_is_deleted_is_gone_and_its_id_may_be_used_again(app: hf.App) -> None:
    graph = loop().compile(checkpointer=saver(app))
    graph.invoke({"number": 0, "log": []}, THREAD)
    saver(app).delete_thread("thread-1")
    assert graph.get_state(THREAD).values == {}
    graph.invoke({"number": 2, "log": []}, THREAD)
    assert graph.get_state(THREAD).values["log"] == ["plan 2", "act 3"]


def test_threads_whose_names_look_like_each_others_records_are_kept_apart(app: hf.App) -> None:
    graph = loop().compile(checkpointer=saver(app))
    names = ["a", "a-999999998", "a:c", "a.b", "%61", "ä" * 300, "ä" * 301]
    for number, name in enumerate(names):
        graph.invoke({"number": 2 + number, "log": []}, {"configurable": {"thread_id": name}})
    for number, name in enumerate(names):
        state = graph.get_state({"configurable": {"thread_id": name}})
        assert state.values["log"][0] == f"plan {2 + number}"
    assert {each.config["configurable"]["thread_id"] for each in saver(app).list(None)} == {*names}


def test_what_is_kept_is_written_by_the_codec_of_the_app(tmp_path: Path) -> None:
    class Turned:
        def encode(self, raw: bytes, /) -> bytes:
            return raw[::-1]

        def decode(self, raw: bytes, /) -> bytes:
            return raw[::-1]

    with hf.App(f"sqlite:///{tmp_path}/holdfast.db", codec=Turned()) as app:
        graph = loop().compile(checkpointer=saver(app))
        graph.invoke({"number": 0, "log": []}, THREAD)
        assert graph.get_state(THREAD).values["log"] == LOG
    with hf.App(f"sqlite:///{tmp_path}/holdfast.db") as app, pytest.raises(hf.HoldfastError):
        loop().compile(checkpointer=saver(app)).get_state(THREAD)


GRAPH_IN_A_PROCESS = """
import operator, os, signal, sys
from typing import Annotated, TypedDict
import holdfast as hf
from holdfast.ext.langgraph import saver
from langgraph.graph import START, StateGraph

url, ledger, kill_in = sys.argv[1:]

class State(TypedDict):
    log: Annotated[list[str], operator.add]

def node(name):
    def run(state):
        with open(ledger, "a") as file:
            file.write(f"{name}\\n")
        if name == kill_in:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"log": [name]}
    return run

builder = StateGraph(State)
names = ["one", "two", "three"]
for before, name in zip([START, *names], names):
    builder.add_node(name, node(name))
    builder.add_edge(before, name)

with hf.App(url, worker=False) as app:
    graph = builder.compile(checkpointer=saver(app))
    config = {"configurable": {"thread_id": "t"}}
    begun = graph.get_state(config).values
    print(graph.invoke(None if begun else {"log": []}, config, durability="sync")["log"])
"""


def test_after_kill_9_a_graph_goes_on_behind_the_last_node_that_was_kept(tmp_path: Path) -> None:
    def run(kill_in: str) -> subprocess.CompletedProcess[str]:
        words = [f"sqlite:///{tmp_path}/holdfast.db", str(tmp_path / "ledger"), kill_in]
        command = [sys.executable, "-c", GRAPH_IN_A_PROCESS, *words]
        return subprocess.run(
            command, cwd=ROOT, env=environment(), text=True, capture_output=True, timeout=120
        )

    for killed_in in ("two", "three"):
        assert run(killed_in).returncode == -signal.SIGKILL
    done = run("nowhere")
    assert done.stdout.strip() == "['one', 'two', 'three']", done.stderr
    assert (tmp_path / "ledger").read_text().split() == ["one", "two", "two", "three", "three"]


# --- items -----------------------------------------------------------------------------------------------


def use(items: Any) -> list[Any]:
    """What a store shows of a life with it."""

    def shown(found: Any) -> Any:
        return None if found is None else (found.namespace, found.key, found.value)

    seen: list[Any] = []
    items.put(("users", "ada"), "likes", {"tea": 3, "milk": {"warm": True}})
    items.put(("users", "ada"), "likes", {"tea": 4, "milk": {"warm": True}})
    items.put(("users", "grace"), "likes", {"tea": 1})
    items.put(("counts",), "users", {"n": 2})
    items.put(("users-2", "ada"), "likes", {"tea": 9})
    seen.append(shown(items.get(("users", "ada"), "likes")))
    seen.append(shown(items.get(("users", "ada"), "hates")))
    seen.append(sorted(map(shown, items.search(("users",)))))
    seen.append(sorted(map(shown, items.search(("users",), filter={"tea": {"$gte": 3}}))))
    seen.append(sorted(map(shown, items.search(("users",), filter={"milk": {"warm": True}}))))
    seen.append(len(items.search(("users",), limit=2)))
    seen.append(items.list_namespaces(prefix=("users",)))
    seen.append(items.list_namespaces(suffix=("ada",)))
    seen.append(items.list_namespaces(prefix=("*", "ada"), max_depth=1))
    items.delete(("users", "ada"), "likes")
    seen.append(shown(items.get(("users", "ada"), "likes")))
    items.put(("users", "ada"), "likes", {"water": 1})
    seen.append(shown(items.get(("users", "ada"), "likes")))
    return seen


def test_a_store_shows_what_the_store_in_memory_shows(app: hf.App) -> None:
    mine, theirs = use(store(app)), use(InMemoryStore())
    assert mine == theirs


def test_an_item_keeps_when_it_was_made(app: hf.App) -> None:
    items = store(app)
    items.put(("a",), "k", {"v": 1})
    first = items.get(("a",), "k")
    items.put(("a",), "k", {"v": 2})
    second = items.get(("a",), "k")
    assert second.created_at == first.created_at <= second.updated_at


async def test_many_may_begin_a_thread_at_the_same_time(tmp_path: Path) -> None:
    graph = StateGraph(State).add_node(plan).add_edge(START, "plan")
    async with hf.App(f"sqlite:///{tmp_path}/holdfast.db", worker=False) as app:
        durable_graph = graph.compile(checkpointer=saver(app))
        runs = (durable_graph.ainvoke({"number": number, "log": []}, THREAD) for number in range(8))
        await asyncio.gather(*runs)
        assert (await durable_graph.aget_state(THREAD)).values["log"]


async def test_of_many_who_replace_an_item_each_gets_its_turn(tmp_path: Path) -> None:
    async with hf.App(f"sqlite:///{tmp_path}/holdfast.db", worker=False) as app:
        items = store(app)
        await asyncio.gather(*(items.aput(("a",), "k", {"v": number}) for number in range(20)))
        assert (await items.aget(("a",), "k")).value["v"] in range(20)
        assert len(await items.asearch(("a",))) == 1


def test_nodes_use_the_store_of_the_app_inside_of_a_workflow(tmp_path: Path) -> None:
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")
    items = store(app)

    async def remember(state: State) -> Any:
        await items.aput(("notes",), "n", {"number": state["number"]})
        return {"log": [str((await items.aget(("notes",), "n")).value["number"])]}

    graph = durable(StateGraph(State).add_node(remember).add_edge(START, "remember")).compile()

    @app.workflow(loop="asyncio")
    async def run(number: int) -> list[str]:
        return (await graph.ainvoke({"number": number, "log": []}))["log"]

    with app:
        assert run.start(5).result() == ["5"]
