"""A person approves what an agent wants to do. While nobody answers, nothing runs and nothing is held.

The tool is code of the workflow (`metadata={"holdfast": False}`), so it may wait for days; what it does in
the end is a step. Needs `pip install 'holdfast[pydantic-ai]'`.
"""

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

import holdfast as hf
from holdfast.ext.pydantic_ai import durability

app = hf.App()
agent = Agent(TestModel(custom_output_text="Done."), name="clerk", capabilities=[durability()])


def send_money(to: str, cents: int) -> str:
    print(f"{cents} cents are on their way")
    return "sent"


@agent.tool_plain(metadata={"holdfast": False})
async def transfer(to: str, cents: int) -> str:
    approved = hf.promise(bool, name="approval", timeout="3d")
    await hf.publish("question", f"a transfer of {cents} cents")
    try:
        if not await approved:
            return "the boss said no"
    except hf.TimedOut:
        return "nobody answered"
    return await hf.run(send_money, to, cents)


@app.workflow(loop="asyncio")
async def pay(request: str) -> str:
    return (await agent.run(request)).output


if __name__ == "__main__":
    with app:
        handle = app.start(pay, "Pay the bill.")
        print(f"approve {next(iter(handle.watch('question')))}?")
        app.resolve(
            handle.id, True, name="approval"
        )  # from a web page, a chat bot, the console, `holdfast mcp`
        print(handle.result())
