"""Twelve calls of an agent of the OpenAI Agents SDK, in two runs: five and seven."""

from typing import Any

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call

import holdfast as hf
from holdfast.ext.openai_agents import durable
from tests.integrations.agents.paid_calls import PaidCalls

set_tracing_disabled(True)


def build(app: hf.App, paid: PaidCalls) -> Any:
    def decide(call: ModelCall) -> Any:
        paid.pay("model")
        items: list[Any] = [] if isinstance(call.input, str) else [*call.input]
        found = [int(item["output"]) for item in items if item.get("type") == "function_call_output"]
        runs = sum(item.get("type") == "message" for item in items)
        if len(found) < (2, 5)[runs]:
            return [function_call("add", {"a": len(found), "b": 10}, call_id=f"call-{len(found)}")]
        return [assistant_message(f"added {found}")]

    @function_tool
    def add(a: int, b: int) -> int:
        paid.pay("add")
        return a + b

    model = ScriptedModel([ModelStep.respond(decide)] * 12)
    agent = durable(Agent(name="helper", model=model, tools=[add]))

    @app.workflow(loop="asyncio")
    async def ask(question: str) -> str:
        first = await Runner.run(agent, question)
        more = [*first.to_input_list(), {"role": "user", "content": "And then?"}]
        second = await Runner.run(agent, more)
        return f"{first.final_output}, {second.final_output}"

    return ask
