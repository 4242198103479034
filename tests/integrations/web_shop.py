"""Workflows that the tests of all web frameworks share, and who may do what with them."""

from dataclasses import dataclass
from typing import Any

import holdfast as hf
from holdfast.ext.web import Action

app = hf.App()


@dataclass
class Cart:
    item: str
    cents: int


@dataclass
class Receipt:
    item: str
    cents: int
    approved_by: str


async def price(cart: Cart) -> int:
    for word in ("looking", "adding", "done"):
        await hf.emit("progress", word)
    return cart.cents * 2


@app.workflow
async def checkout(cart: Cart, gift: bool = False) -> Receipt:
    """Buy something, once somebody has approved it."""
    cents = await hf.run(price, cart)
    approval = await hf.promise(str, name="approval")
    await hf.emit("progress", f"approved by {approval}")
    return Receipt(cart.item, 0 if gift else cents, approval)


@app.workflow
async def add(left: int, right: int) -> int:
    return left + right


@app.workflow
async def fail(text: str) -> None:
    raise ValueError(text)


@app.workflow
async def converse() -> list[str]:
    said: list[str] = []
    async for message in hf.mailbox(str):
        if message.value == "stop":
            break
        said.append(message.value)
    return said


@app.workflow
async def secret() -> str:
    return "not for the web"


PUBLIC = [checkout, add, fail, converse]


def user_of(request: Any) -> str:
    return str(request.headers.get("x-user", "nobody"))


def tags(request: Any) -> dict[str, str]:
    return {"owner": user_of(request)}


def allow(request: Any, action: Action) -> bool:
    """Everybody but the banned may start, and everybody sees their own."""
    user = user_of(request)
    if action.kind == "start":
        return user != "banned" and action.tags["owner"] == user
    return action.tags.get("owner") == user
