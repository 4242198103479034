"""The app whose executions the browser looks at: everything that a console must be able to show, in small."""

import os
import time
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any, Literal

import holdfast as hf

app = hf.App(
    os.environ.get("HOLDFAST_URL", "sqlite:///holdfast.db"), lease=float(os.environ.get("SHOP_LEASE_S", "20"))
)
app.queue("mail", concurrency=2, per_key=1)
app.queue("reports")


@dataclass
class Decision:
    """What a person says about a refund."""

    approved: bool
    amount: int
    reason: Literal["goodwill", "damaged", "late"] = "goodwill"


@dataclass
class Item:
    name: str
    price: int


class Speed(Enum):
    """How fast a parcel travels."""

    SLOW = "slow"
    FAST = "fast"


@dataclass
class Address:
    street: str
    city: str


@dataclass
class Parcel:
    """One of everything that a form can ask for."""

    weight: float
    fragile: bool
    speed: Speed
    to: Address
    items: list[Item]
    insurance: Literal["none", "full"]
    note: str | None = None
    stops: int = 0


pydantic: Any = import_module("pydantic")
Review: Any = pydantic.create_model(
    "Review",
    stars=(int, pydantic.Field(ge=1, le=5)),
    text=(str, ...),
    by=(pydantic.create_model("Reviewer", name=(str, ...)), ...),
)
ANSWERS: dict[str, Any] = {
    "number": float,
    "choice": Literal["tea", "milk"],
    "list": list[int],
    "optional": int | None,
    "parcel": Parcel,
    "review": Review,
}


@hf.step
def reserve(order: str) -> str:
    time.sleep(0.02)
    return f"reserved {order}"


@hf.step(retry=hf.Retry(attempts=3, delay="50ms", jitter=0))
def charge(card: str, cents: int) -> str:
    if card.startswith("bad"):
        raise ValueError(f"the card {card} was declined")
    return f"receipt for {cents} on {card}"


@hf.step
def pack(order: str) -> str:
    return f"packed {order}"


@app.workflow
async def checkout(order: str, card: str, cents: int = 100) -> str:
    """Reserve, charge and pack one order."""
    await reserve(order)
    receipt = await charge(card, cents)
    await pack(order)
    return receipt


@hf.step
def ask_bank(marker: str) -> str:
    if not os.path.exists(marker):  # noqa: PTH110
        raise ConnectionError("the bank does not answer")
    return "paid"


@app.workflow
async def picky(marker: str) -> str:
    """Fail until a file is there."""
    await reserve("picky")
    return await ask_bank(marker)


@app.workflow
async def refund(order: str) -> str:
    """Ask a person, then pay back."""
    decision = await hf.promise(Decision, name="approval")
    if not decision.approved:
        return "refused"
    return await charge("good", -decision.amount)


@app.workflow
async def confirm(question: str) -> bool:
    """Ask a person yes or no."""
    return await hf.promise(bool, name="answer")


@app.workflow
async def delegate(question: str) -> bool:
    """Let another workflow ask."""
    return await hf.call(confirm, question)


@app.entity
class Account:
    """Not started by anybody: called."""

    total: int = 0

    async def deposit(self, cents: int) -> int:
        self.total += cents
        return self.total


@app.workflow
async def survey(kind: str) -> Any:
    """Ask a person for a value of some type."""
    return await hf.promise(ANSWERS[kind], name="answer")


@app.workflow
async def nap(seconds: float) -> str:
    """Sleep, and do nothing else."""
    await hf.sleep(seconds)
    return "slept"


@app.workflow
async def family(children: int) -> list[str]:
    """Call other workflows and wait for them."""
    await reserve("family")
    return [await hf.call(checkout, f"child-{number}", "good", number) for number in range(children)]


@app.workflow
async def basket() -> list[str]:
    """Collect items until three are there."""
    names: list[str] = []
    async for message in hf.mailbox(Item):
        if message.value.price < 0:
            message.refuse("a price is not negative")
            continue
        names.append(message.value.name)
        await hf.publish("size", len(names))
        await hf.emit("log", f"{message.value.name} is in the basket")
        message.answer(len(names))
        if len(names) == 3:
            break
    return names


@hf.step(retry=hf.Retry(attempts=9, delay="30m", jitter=0))
def ask_supplier(item: str) -> str:
    raise ConnectionError(f"the supplier of {item} does not answer")


@app.workflow
async def restock(item: str) -> str:
    """Order from a supplier that may be away for long."""
    await reserve(item)
    return await ask_supplier(item)


@app.workflow
async def print_label(order: str) -> str:
    """One at a time at the printer, for as long as it takes."""
    async with hf.lock("printer-3"):
        await hf.sleep("1h")
    return f"label of {order}"


@app.workflow
async def welcome(user: str) -> str:
    """Wait until a user has verified an address."""
    await hf.event("user.verified", user=user, timeout="7d")
    return f"welcome {user}"


@hf.step
def import_rows(marker: str) -> str:
    """Says how far it is, until its file appears."""
    done = 0
    while not os.path.exists(marker):  # noqa: PTH110
        done = min(done + 1, 620)
        hf.progress(done / 1000, rows=done * 100)
        time.sleep(0.02)
    return "imported"


@app.workflow
async def catalogue(marker: str) -> str:
    """Import a catalogue, after a short rest."""
    await reserve("catalogue")
    await hf.sleep("200ms")
    return await import_rows(marker)


@hf.step
def crunch(marker: str) -> str:
    """Runs until its file appears, so that a test can kill its worker in the middle."""
    while not os.path.exists(marker):  # noqa: PTH110
        time.sleep(0.02)
    return "crunched"


@app.workflow
async def fragile(marker: str) -> str:
    """Survive the death of a worker."""
    await reserve("fragile")
    done = await crunch(marker)
    await pack("fragile")
    return done


@hf.step
def pick(item: str, seconds: float) -> str:
    time.sleep(seconds)
    return item


@hf.step(retry=hf.Retry(attempts=5, delay="300ms", jitter=0))
def book_courier(order: str) -> str:
    time.sleep(0.15)
    if hf.current().attempt < 3:
        raise ConnectionError("the courier does not answer")
    return f"a courier comes for {order}"


@app.workflow
async def fulfil(order: str, marker: str) -> str:
    """Everything that an order needs, on more than one worker."""
    await reserve(order)
    await hf.gather(pick("tea", 0.9), pick("cups", 0.4), pick("sugar", 0.6))
    await book_courier(order)
    await hf.call(checkout, order, "good", 4200)
    await hf.sleep("800ms")
    await crunch(marker)
    return await pack(order)


@hf.step
def tiny(number: int) -> int:
    return number


@app.workflow
async def long(steps: int) -> int:
    """Very many small steps."""
    total = 0
    for number in range(steps):
        total += await tiny(number)
    return total


@app.workflow
async def echo(value: Any) -> Any:
    """Give back whatever it is given."""
    return value


@app.workflow
async def fail_with(message: str) -> None:
    """Fail with this message."""
    raise RuntimeError(message)


@app.task(queue="mail")
def send_mail(to: str, subject: str = "Hello") -> str:
    """Send one letter."""
    return f"sent {subject} to {to}"


@app.schedule(cron="0 3 * * 1-5", timezone="Europe/Berlin", overlap="skip", args=["nightly"])
@app.task(queue="reports", retry=hf.Retry(attempts=3, delay="50ms", jitter=0))
def report(name: str, broken: bool = False) -> str:
    """Write one report."""
    if broken:
        raise RuntimeError(f"no data for {name}")
    return f"report {name}"
