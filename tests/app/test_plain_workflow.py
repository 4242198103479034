"""A workflow is an async def or a generator: anything else is refused where it is declared."""

import functools
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf


def app(folder: Path) -> hf.App:
    return hf.App(f"sqlite:///{folder}/holdfast.db")


@pytest.mark.parametrize("options", [None, {"name": "other"}])
def test_a_plain_function_is_refused_when_it_is_declared(
    tmp_path: Path, options: dict[str, Any] | None
) -> None:
    def checkout(order: str) -> str:
        return order

    here = app(tmp_path)
    with pytest.raises(hf.errors.PlainWorkflow, match="HF7008") as caught:
        here.workflow(checkout) if options is None else here.workflow(**options)(checkout)
    assert "async def" in str(caught.value)
    assert "hf.run" in str(caught.value)
    assert not [*here.registry]


def test_what_else_cannot_be_a_workflow_is_named_as_what_it_is(tmp_path: Path) -> None:
    class Checkout:
        def __call__(self, order: str) -> str:
            return order

    async def orders() -> AsyncGenerator[str]:
        yield "order"

    here = app(tmp_path)
    with pytest.raises(hf.errors.PlainWorkflow, match="Checkout is a plain function"):
        here.workflow(Checkout())
    with pytest.raises(hf.errors.PlainWorkflow, match="orders is an async generator"):
        here.workflow(orders)


def test_what_can_wait_is_taken_also_under_a_decorator(tmp_path: Path) -> None:
    here = app(tmp_path)

    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any) -> Any:
            return function(*args)

        return call

    @here.workflow
    @logged
    async def doubles(number: int) -> int:
        return 2 * number

    @here.workflow
    def yields(number: int) -> Generator[Any, Any, int]:
        yield from hf.sleep(0.001)
        return 3 * number

    with here:
        assert here.start(doubles, 2).result(60) == 4
        assert here.start(yields, 2).result(60) == 6
