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


@app.workflow
async def order(item: str, count: int) -> float:
    assert_type(await hf.run(price, item), int)
    assert_type(await hf.run(fetch, item), bytes)
    assert_type(await hf.run(fetch, item, retry=hf.Retry(attempts=2)), bytes)
    assert_type(await hf.run(price, item, timeout="5s"), int)
    hf.run(price, 3)  # type: ignore[call-overload]
    hf.run(price)  # type: ignore[call-overload]
    answer = hf.promise(bool, timeout="2d")
    assert_type(answer.id, str)
    assert_type(await answer, bool)
    assert_type(await hf.call(old, 3), str)
    assert_type(await hf.start(old, 3), str)
    hf.call(old, "x")  # type: ignore[call-overload]
    return 1.0


@app.workflow
def old(number: int) -> Generator[Any, Any, str]:
    yield from hf.sleep(1)
    return str(number)


def from_outside() -> None:
    assert_type(app.start(order, "x", 1).result(), float)
    assert_type(app.start(order, "x", 1, id="o1").result(), float)
    assert_type(app.start(old, 1), hf.Handle[str])
    app.start(order, "x")  # type: ignore[call-overload]
    app.start(order, 1, 1)  # type: ignore[call-overload]
