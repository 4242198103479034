# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What type checkers know about workflows. An ignore that is not needed is an error, so each is a claim."""

from collections.abc import Generator
from typing import Any, assert_type

import holdfast as hf

app = hf.App()


def price(item: str, count: int = 1) -> int:
    return len(item) * count


async def fetch(url: str) -> bytes:
    return url.encode()


@hf.step
def weigh(item: str, count: int = 1) -> float:
    return len(item) * count / 2


@hf.step(retry=hf.Retry(attempts=2), timeout="30s")
async def charge(card: str, cents: int) -> bytes:
    return card.encode() * cents


class Shop:
    @hf.step(name="ship")
    async def send(self, item: str) -> int:
        return len(item)


@app.workflow
async def order(item: str, count: int) -> float:
    assert_type(await hf.run(price, item), int)
    assert_type(await hf.transact(price, count, on="shop"), int)
    assert_type(await hf.transact(fetch, on="shop", retry=hf.Retry(attempts=2)), bytes)
    await hf.transact(price, item)  # type: ignore[call-overload]
    assert_type(await hf.run(fetch, item), bytes)
    assert_type(await hf.run(fetch, item, retry=hf.Retry(attempts=2)), bytes)
    assert_type(await hf.run(price, item, timeout="5s"), int)
    hf.run(price, 3)  # type: ignore[call-overload]
    hf.run(price)  # type: ignore[call-overload]
    assert_type(await weigh(item), float)
    assert_type(await charge(item, count), bytes)
    assert_type(await charge(item, cents=count), bytes)
    assert_type(await charge.with_options(timeout="5s")(item, count), bytes)
    assert_type(await hf.run(weigh, item, 2), float)
    assert_type(await Shop().send(item), int)
    assert_type(await hf.gather(weigh(item), charge(item, 1)), tuple[float, bytes])
    weigh(3)  # type: ignore[arg-type]
    charge(item)  # type: ignore[call-arg]
    charge(item, cents="3")  # type: ignore[arg-type]
    charge.with_options(timeout="5s")(item)  # type: ignore[call-arg]
    hf.run(charge, item)  # type: ignore[call-overload]
    Shop().send(item, 3)  # type: ignore[call-arg]
    Shop().send(3)  # type: ignore[arg-type]
    answer = hf.promise(bool, timeout="2d")
    assert_type(answer.id, str)
    assert_type(await answer, bool)
    assert_type(await hf.call(old, 3), str)
    assert_type(await hf.start(old, 3), str)
    assert_type(await hf.call(old.with_options(timeout="5s"), 3), str)
    assert_type(await hf.start(old.with_options(tags={"a": "b"}), 3), str)
    hf.call(old, "x")  # type: ignore[call-overload]
    hf.call(old.with_options(timeout="5s"), "x")  # type: ignore[call-overload]
    hf.call(old.with_options(timeout="5s"))  # type: ignore[call-overload]
    hf.start(old)  # type: ignore[call-overload]
    return 1.0


@app.workflow
def old(number: int) -> Generator[Any, Any, str]:
    yield from hf.sleep(1)
    return str(number)


async def from_outside() -> None:
    assert_type(weigh.plain("x"), float)
    assert_type(await charge("x", 1), bytes)
    assert_type(await charge.plain("x", 1), bytes)
    weigh.plain(3)  # type: ignore[arg-type]
    assert_type(app.start(order, "x", 1).result(), float)
    assert_type(app.start(order, "x", 1, id="o1").result(), float)
    assert_type(app.start(old, 1), hf.types.Handle[str])
    assert_type(order.start("x", 1).result(), float)
    assert_type(order.with_options(id="o1", tags={"a": "b"}).start("x", count=1), hf.types.Handle[float])
    assert_type(old.with_options(group="slow").start(1), hf.types.Handle[str])
    assert_type(await order.start("x", 1), float)
    order.start("x")  # type: ignore[call-arg]
    order.start("x", "y")  # type: ignore[arg-type]
    order.start("x", 1, id="o1")  # type: ignore[call-arg]
    order.with_options(id="o1").start("x")  # type: ignore[call-arg]
    order.with_options(id="o1").start(1, 1)  # type: ignore[arg-type]
    order.with_options(id=1)  # type: ignore[arg-type]
    order.with_options(color="red")  # type: ignore[call-arg]
    app.start(order, "x")  # type: ignore[call-overload]
    app.start(order, 1, 1)  # type: ignore[call-overload]
