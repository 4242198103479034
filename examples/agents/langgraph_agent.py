"""A graph of LangGraph that survives: each node is a step, and a person looks at the draft in between.

Needs `pip install 'holdfast[langgraph]'`; the model is langchain's own for tests.
"""

import operator
from typing import Annotated, TypedDict

from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

import holdfast as hf
from holdfast.ext.langgraph import durable

app = hf.App()
model = FakeListChatModel(responses=["Frogs can jump."])


class Report(TypedDict):
    topic: str
    lines: Annotated[list[str], operator.add]


async def write(state: Report) -> dict[str, list[str]]:
    print(f"writing about {state['topic']}")
    return {"lines": [str((await model.ainvoke(f"One line about {state['topic']}")).content)]}


def review(state: Report) -> dict[str, list[str]]:
    return {"lines": [f"({interrupt(state['lines'][-1])})"]}


builder = StateGraph(Report)
builder.add_node(write)
builder.add_node(review)
builder.add_edge(START, "write")
builder.add_edge("write", "review")
durable(builder, retry=hf.Retry(attempts=5))


@app.workflow(loop="asyncio")
async def report(topic: str) -> list[str]:
    graph = builder.compile(checkpointer=InMemorySaver())  # made here: what is durable are the steps
    thread = {"configurable": {"thread_id": "report"}}
    draft = await graph.ainvoke({"topic": topic, "lines": []}, thread)
    await hf.publish("draft", draft["__interrupt__"][0].value)
    remark = await hf.promise(str, name="remark", timeout="7d")
    done = await graph.ainvoke(Command(resume=remark), thread)
    lines: list[str] = done["lines"]
    return lines


if __name__ == "__main__":
    with app:
        handle = app.start(report, "frogs")
        print(next(iter(handle.watch("draft"))))
        app.resolve(handle.id, "true, and far", name="remark")
        print(handle.result())
