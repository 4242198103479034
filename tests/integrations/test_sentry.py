"""Sentry's own SDK with a transport in this process: a failure is one event, with id and attempt."""

import importlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.ext.sentry import Sentry

Events = list[dict[str, Any]]


@pytest.fixture
def sentry() -> Generator[Events]:
    sdk: Any = importlib.import_module("sentry_sdk")
    transport: Any = importlib.import_module("sentry_sdk.transport").Transport
    events: Events = []

    def capture(self: Any, envelope: Any) -> None:
        event = envelope.get_event()
        if event is not None:
            events.append(event)

    local = type("Local", (transport,), {"capture_envelope": capture})
    sdk.init("http://key@127.0.0.1:9/1", transport=local)
    yield events
    sdk.init()


@pytest.fixture
def shop(tmp_path: Path, sentry: Events) -> hf.App:
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")
    app.use(Sentry())
    return app


def failing() -> Callable[..., None]:
    def charge(card: str) -> None:
        sdk: Any = importlib.import_module("sentry_sdk")
        sdk.set_tag("card", card)
        raise ConnectionError("the bank is away")

    return charge


def tags(event: dict[str, Any]) -> dict[str, str]:
    return dict(event["tags"])


def test_a_step_that_fails_for_good_is_one_event(shop: hf.App, sentry: Events) -> None:
    charge = failing()

    @shop.workflow
    async def order() -> None:
        await hf.run(charge, "visa", retry=hf.Retry(attempts=3, delay=0.001))

    with shop, pytest.raises(ConnectionError):
        order.with_options(id="o").start().result()
    [event] = sentry
    assert tags(event) == {
        "card": "visa",
        "holdfast.execution": "o",
        "holdfast.workflow": "order",
        "holdfast.step": "charge",
        "holdfast.operation": "o:1",
        "holdfast.attempt": "3",
    }
    [error] = event["exception"]["values"]
    assert error["type"] == "ConnectionError"
    assert error["stacktrace"]["frames"][-1]["function"] == "charge"


def test_a_step_that_recovers_is_no_event(shop: hf.App, sentry: Events) -> None:
    failures = [ConnectionError()]

    def charge() -> str:
        if failures:
            raise failures.pop()
        return "ok"

    @shop.workflow
    async def order() -> str:
        return await hf.run(charge, retry=hf.Retry(attempts=3, delay=0.001))

    with shop:
        assert order.start().result() == "ok"
    assert sentry == []


def test_a_mistake_in_the_code_of_a_workflow_is_one_event(shop: hf.App, sentry: Events) -> None:
    @shop.workflow
    async def order(size: int) -> int:
        return 1 // size

    with shop, pytest.raises(ZeroDivisionError):
        order.with_options(id="o").start(0).result()
    [event] = sentry
    assert tags(event) == {"holdfast.execution": "o", "holdfast.workflow": "order"}


def test_a_task_that_fails_is_one_event(shop: hf.App, sentry: Events) -> None:
    @shop.task(retry=hf.Retry(attempts=2, delay=0.01))
    def mail(to: str) -> None:
        raise ConnectionError("no route")

    with shop:
        assert mail.with_options(id="m").send("ada").get().is_err
    [event] = sentry
    assert tags(event) == {"holdfast.execution": "m", "holdfast.task": "mail", "holdfast.attempt": "2"}


def test_every_attempt_is_an_event_if_asked_for(tmp_path: Path, sentry: Events) -> None:
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")
    app.use(Sentry(every_attempt=True))
    charge = failing()

    @app.workflow
    async def order() -> None:
        await hf.run(charge, "visa", retry=hf.Retry(attempts=2, delay=0.001))

    with app, pytest.raises(ConnectionError):
        order.with_options(id="o").start().result()
    assert [tags(event)["holdfast.attempt"] for event in sentry] == ["1", "2"]
