"""Twelve calls of an agent of Pydantic AI, in two runs: five and seven."""

from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import holdfast as hf
from holdfast.ext.pydantic_ai import durability
from tests.integrations.agents.paid_calls import PaidCalls


def build(app: hf.App, paid: PaidCalls) -> Any:
    def decide(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        paid.pay("model")
        found = [
            part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)
        ]
        runs = sum(isinstance(part, TextPart) for message in messages for part in message.parts)
        if len(found) < (2, 5)[runs]:
            return ModelResponse([ToolCallPart("add", {"a": len(found), "b": 10})])
        return ModelResponse([TextPart(f"added {found}")])

    agent = Agent(FunctionModel(decide), name="helper", capabilities=[durability()])

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        paid.pay("add")
        return a + b

    @app.workflow(loop="asyncio")
    async def ask(question: str) -> str:
        first = await agent.run(question)
        second = await agent.run("And then?", message_history=first.all_messages())
        return f"{first.output}, {second.output}"

    return ask
