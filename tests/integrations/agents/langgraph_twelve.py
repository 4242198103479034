"""Twelve calls of an agent that is a graph of LangGraph, with the model for tests that langchain brings."""

import operator
from typing import Annotated, Any, TypedDict

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, StateGraph

import holdfast as hf
from holdfast.ext.langgraph import durable
from tests.integrations.agents.paid_calls import PaidCalls


class Conversation(TypedDict):
    messages: Annotated[list[AnyMessage], operator.add]
    tools: int


def build(app: hf.App, paid: PaidCalls) -> Any:
    def decide(state: Conversation) -> Any:
        paid.pay("model")
        found = [int(str(each.content)) for each in state["messages"] if isinstance(each, ToolMessage)]
        number = len(found)
        call: Any = {"name": "add", "args": {"a": number, "b": 10}, "id": f"call-{number}"}
        answer = AIMessage(f"added {found}")
        asks = AIMessage("", tool_calls=[call])
        model = GenericFakeChatModel(messages=iter([asks if number < state["tools"] else answer]))
        return {"messages": [model.invoke(state["messages"])]}

    async def act(state: Conversation) -> Any:
        paid.pay("add")
        [call] = state["messages"][-1].tool_calls
        return {
            "messages": [ToolMessage(str(call["args"]["a"] + call["args"]["b"]), tool_call_id=call["id"])]
        }

    def route(state: Conversation) -> str:
        return "act" if state["messages"][-1].tool_calls else END

    builder = StateGraph(Conversation)
    builder.add_node(decide)
    builder.add_node(act)
    builder.add_edge(START, "decide")
    builder.add_conditional_edges("decide", route, ["act", END])
    builder.add_edge("act", "decide")
    graph = durable(builder).compile()

    @app.workflow(loop="asyncio")
    async def ask(question: str) -> str:
        first = await graph.ainvoke({"messages": [HumanMessage(question)], "tools": 2})
        more = [*first["messages"], HumanMessage("And then?")]
        second = await graph.ainvoke({"messages": more, "tools": 5})
        return f"{first['messages'][-1].content}, {second['messages'][-1].content}"

    return ask
