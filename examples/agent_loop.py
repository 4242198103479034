"""An agent: a model decides, tools act, until the model has an answer. No turn is paid for twice.

The model here is a few lines of Python, so that this runs without a network; a real one is one more step.
"""

from dataclasses import dataclass

import holdfast as hf

app = hf.App()


@dataclass
class Turn:
    """What the model wants: a tool and its argument, or the answer."""

    tool: str | None
    text: str


def think(conversation: list[str]) -> Turn:
    print(f"the model reads {len(conversation)} messages")
    if not any(line.startswith("weather:") for line in conversation):
        return Turn("weather", "Lisbon")
    if not any(line.startswith("calendar:") for line in conversation):
        return Turn("calendar", "Saturday")
    return Turn(None, "Go to the beach on Saturday.")


def weather(place: str) -> str:
    print(f"tool: the weather in {place}")
    return "sunny"


def calendar(day: str) -> str:
    print(f"tool: the calendar of {day}")
    return "free"


TOOLS = {"weather": weather, "calendar": calendar}


@app.workflow
async def agent(question: str) -> str:
    conversation = [question]
    while True:
        turn = await hf.run(think, conversation, retry=hf.Retry(attempts=5))
        if turn.tool is None:
            return turn.text
        result = await hf.run(TOOLS[turn.tool], turn.text, timeout="30s")
        conversation.append(f"{turn.tool}: {result}")


if __name__ == "__main__":
    print(app.start(agent, "What shall we do on Saturday?").result())
