"""An agent of the OpenAI Agents SDK that survives: each call of its model and its tools is made once.

`ScriptedModel` is the SDK's own model for tests, so that this runs without a network; a real one is its name:
`Agent(model="gpt-5.2", ...)`. Needs `pip install 'holdfast[openai-agents]'`.
"""

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

import holdfast as hf
from holdfast.ext.openai_agents import durable

set_tracing_disabled(True)
app = hf.App()


@function_tool
def weather(place: str) -> str:  # a step
    print(f"asking for the weather in {place}")
    return "rain"


script = [
    [function_call("weather", {"place": "Lisbon"}, call_id="1")],
    [assistant_message("Take an umbrella.")],
]
agent = durable(Agent(name="adviser", model=ScriptedModel(script), tools=[weather]))


@app.workflow(loop="asyncio")
async def advise(question: str) -> str:
    result = await Runner.run(agent, question)
    return str(result.final_output)


if __name__ == "__main__":
    print(app.start(advise, "What shall I take along?").result())
