"""Methods, classes, workflows of other groups, and the catch-all."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import DuplicateWorkflow
from holdfast.testing import World
from holdfast.testing.mortal import CrashPoint


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/holdfast.db"


def double(number: int) -> int:
    return 2 * number


def shop(url: str) -> tuple[hf.App, Any]:
    app = hf.App(url)

    class Orders:
        def __init__(self, rate: int) -> None:
            self.rate = rate

        @app.workflow
        async def checkout(self, cents: int) -> int:
            return await self.taxed(cents) + await hf.call(self.fee, cents)

        @app.workflow
        async def taxed(self, cents: int) -> int:
            return self.rate * await hf.run(double, cents)

        @app.workflow(name="orders.fee")
        def fee(self, cents: int) -> Generator[Any, Any, int]:
            return (yield from hf.run(double, self.rate))

    return app, Orders


def test_a_method_is_a_workflow_of_the_object_that_is_provided(url: str) -> None:
    app, orders = shop(url)
    app.provide(orders, orders(100))
    with app:
        assert orders(1).checkout.start(3).result() == 800
        assert app.start(orders.checkout, 3).result() == 800
        assert sorted(str(each.name) for each in app.find()) == [
            "Orders.checkout",
            "Orders.checkout",
            "orders.fee",
            "orders.fee",
        ]


def test_a_class_is_a_workflow_by_its_run(url: str) -> None:
    app = hf.App(url)

    @app.workflow
    class Basket:
        """What a customer has chosen."""

        def __init__(self) -> None:
            self.total = 0

        async def run(self, first: int, second: int = 1) -> int:
            await self.add(first)
            await hf.sleep(60)
            await self.add(second)
            return self.total

        async def add(self, price: int) -> None:
            self.total += await hf.run(double, price)

    basket: Any = Basket  # mypy takes no notice of what a decorator makes of a class
    for write in range(1, 6):
        with World(app, crashes=[CrashPoint(write, "after")]):
            assert basket.start(1, second=2).result() == 6
    assert basket.name == "Basket"


def test_a_class_without_run_is_refused(url: str) -> None:
    app = hf.App(url)

    class Empty: ...

    with pytest.raises(hf.HoldfastError, match="needs a method `run`"):
        app.workflow(Empty)


def test_a_workflow_of_another_group_is_called_by_name(url: str) -> None:
    billing, front = hf.App(url, group="billing"), hf.App(url, group="front")

    @billing.workflow(name="charge")
    async def charge_there(cents: int) -> int:
        return await hf.run(double, cents)

    charge = hf.remote("charge", group="billing", returns=int)

    @hf.remote(group="billing", name="charge")
    async def stub(cents: int) -> int:
        raise NotImplementedError

    @front.workflow
    async def order(cents: int) -> list[int]:
        return [await hf.call(charge, cents), await hf.call(stub, cents)]

    with billing, front:
        assert front.start(order, 4).result(60) == [8, 8]
        assert front.start(stub, 5).result(60) == 10


def test_a_stub_checks_its_arguments_where_it_is_called(url: str) -> None:
    app = hf.App(url)

    @hf.remote(group="billing")
    async def charge(cents: int) -> int:
        raise NotImplementedError

    with app, pytest.raises(hf.errors.BadArguments):
        app.start(charge, "four")  # type: ignore[call-overload]


def test_a_fallback_takes_every_name_that_nobody_declared(url: str) -> None:
    app = hf.App(url)

    @app.workflow
    async def known() -> str:
        return "known"

    @app.fallback
    async def anything(name: str, *args: Any, **kwargs: Any) -> list[Any]:
        size = await hf.run(len, args, name="len")
        return [name, hf.current().workflow, size, list(args), kwargs]

    with app:
        assert app.start("known").result() == "known"
        assert app.start("shapes.circle", 3, fill="red").result() == [
            "shapes.circle",
            "shapes.circle",
            1,
            [3],
            {"fill": "red"},
        ]
        assert [each.name for each in app.find("shapes.circle")] == ["shapes.circle"]


def test_a_fallback_is_replayed_under_the_name_that_was_asked_for() -> None:
    app = hf.App()

    @app.fallback
    async def anything(name: str, size: int) -> list[Any]:
        first = await hf.run(double, size)
        await hf.sleep(60)
        return [name, first, await hf.run(double, first)]

    for write in range(1, 6):
        with World(app, crashes=[CrashPoint(write, "before")]):
            assert app.start("whatever", 2).result() == ["whatever", 4, 8]


def test_a_second_fallback_is_refused(url: str) -> None:
    app = hf.App(url)

    @app.fallback
    async def one(name: str) -> None: ...

    with pytest.raises(DuplicateWorkflow):

        @app.fallback
        async def two(name: str) -> None: ...
