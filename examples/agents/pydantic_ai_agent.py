"""An agent of Pydantic AI that survives: no model request is paid for twice, and others see it write.

`TestModel` is the library's own model for tests, so that this runs without a network; a real one is its name:
`Agent("openai:gpt-5.2", ...)`. Needs `pip install 'holdfast[pydantic-ai]'`.
"""

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

import holdfast as hf
from holdfast.ext.pydantic_ai import durability

app = hf.App()
agent = Agent(
    TestModel(custom_output_text="Take an umbrella."),
    name="adviser",
    instructions="Advise in one sentence.",
    capabilities=[durability(retry=hf.Retry(attempts=5), stream="events")],
)


@agent.tool_plain
def weather(place: str) -> str:  # a step
    print(f"asking for the weather in {place}")
    return "rain"


@app.workflow(loop="asyncio")
async def advise(question: str) -> str:
    return (await agent.run(question)).output


if __name__ == "__main__":
    with app:
        handle = app.start(advise, "What shall I take along?")
        for _, event in handle.stream("events"):  # while the model writes
            if event["event_kind"] == "part_delta":
                print(event["delta"]["content_delta"], end="|")
        print()
        print(handle.result())
