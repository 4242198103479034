# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What type checkers know about tasks. An ignore that is not needed is an error, so each is a claim."""

from collections.abc import Coroutine
from typing import Any, assert_type

import holdfast as hf

app = hf.App()


@app.task
def price(item: str, count: int = 1) -> int:
    return len(item) * count


@app.task(queue="email", retry=hf.Retry(delay=1, attempts=5))
def send_email(to: str) -> hf.TaskResult[str, hf.TaskError]:
    return hf.TaskResult(ok=to)


@app.task(mode="async")
async def fetch(url: str) -> bytes:
    return url.encode()


@app.task
async def charge(cents: int) -> hf.TaskResult[float, hf.TaskError]:
    return hf.TaskResult(err=hf.TaskError("DECLINED"))


def from_outside() -> None:
    assert_type(price("x"), int)
    assert_type(send_email("x"), hf.TaskResult[str, hf.TaskError])
    assert_type(fetch("x"), Coroutine[Any, Any, bytes]).close()
    sent = price.try_send("x", count=2)
    if isinstance(sent, hf.types.Err):
        assert_type(sent.error, hf.types.SendError)
    else:
        assert_type(sent.value, hf.types.TaskHandle[int, hf.TaskError])
        assert_type(sent.value.get(), hf.TaskResult[int, hf.TaskError])
    assert_type(send_email.send("x").get().ok_value, str)
    assert_type(hf.gather_results(price.send_many([("x",)])), list[hf.TaskResult[int, hf.TaskError]])
    app.schedules.create("s", price, "x", 2, cron="* * * * *")
    app.schedules.create("s", price, 3, cron="* * * * *")  # type: ignore[arg-type]
    app.schedules.create("s", charge, 1, 2, cron="* * * * *")  # type: ignore[arg-type]
    assert_type(fetch.send("x").get().ok, bytes | None)
    assert_type(charge.send(3).get(timeout=1).err, hf.TaskError | None)
    assert_type(price.with_options(priority=5, key="k").send("x").get().ok_value, int)
    assert_type(price.schedule("5m", "x").get().ok_value, int)
    price.send(3)  # type: ignore[arg-type]
    price.send()  # type: ignore[call-arg]
    price.send("x", amount=1)  # type: ignore[call-arg]
    send_email.with_options(priority=5).send(3)  # type: ignore[arg-type]
    send_email.schedule(5, 3)  # type: ignore[arg-type]
    send_email.with_options(on_conflict="ignore")  # type: ignore[arg-type]
    send_email.with_options(urgent=True)  # type: ignore[call-arg]
    app.send_many([price.prepare("x"), send_email.prepare("y")])
    price.prepare(3)  # type: ignore[arg-type]


async def in_asyncio() -> None:
    handle = await send_email.send_async("x")
    assert_type(await handle, hf.TaskResult[str, hf.TaskError])
    await price.send_async(3)  # type: ignore[arg-type]


@app.workflow
async def order(item: str) -> float:
    assert_type(await hf.call(price, item), hf.TaskResult[int, hf.TaskError])
    assert_type(await hf.call(charge, 3), hf.TaskResult[float, hf.TaskError])
    assert_type(await hf.call(send_email.with_options(priority=3), item), hf.TaskResult[str, hf.TaskError])
    assert_type(await hf.start(send_email, item), str)
    hf.call(price, 3)  # type: ignore[call-overload]
    hf.start(send_email)  # type: ignore[call-overload]
    return 1.0
