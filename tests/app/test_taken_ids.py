"""An id stands for one call: another workflow, version or other arguments are refused, not ignored."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.client.caller import ask
from holdfast.protocol.records import Value
from holdfast.protocol.requests import PromiseCreate
from tests.processes import holdfast


class Scrambled:
    """A codec that never writes the same twice, as one that encrypts."""

    def encode(self, raw: bytes) -> bytes:
        salt = os.urandom(8)
        return salt + bytes(each ^ salt[0] for each in raw)

    def decode(self, raw: bytes) -> bytes:
        return bytes(each ^ raw[0] for each in raw[8:])


def shop(folder: Path, codec: hf.types.Codec | None = None) -> hf.App:
    app = hf.App(f"sqlite:///{folder}/holdfast.db", codec=codec)

    @app.workflow
    async def pay(cents: int, currency: str = "EUR") -> str:
        return f"paid {cents} {currency}"

    @app.workflow
    async def refund(cents: int) -> str:
        return f"refunded {cents}"

    @app.workflow(name="pay", version=2)
    async def pay_again(cents: int) -> str:
        return f"paid {cents} otherwise"

    @app.workflow
    async def tagged(names: set[str]) -> int:
        return len(names)

    @app.task
    def note(text: str) -> str:
        return text

    return app


@pytest.mark.parametrize("codec", [None, Scrambled()], ids=["plain", "encrypted"])
def test_a_default_that_is_written_out_is_the_same_call(tmp_path: Path, codec: hf.types.Codec | None) -> None:
    with shop(tmp_path, codec) as app:
        pay = app.registry.find("pay", 1)
        assert app.start(pay, 100, id="short").result(60) == "paid 100 EUR"
        assert app.start(pay, 100, "EUR", id="short").result(60) == "paid 100 EUR"
        assert app.start(pay, cents=100, currency="EUR", id="short").result(60) == "paid 100 EUR"
        assert app.start(pay, 100, "EUR", id="long").result(60) == "paid 100 EUR"
        assert app.start(pay, 100, id="long").result(60) == "paid 100 EUR"
        with pytest.raises(hf.errors.IdTaken, match="other arguments"):
            app.start(pay, 100, "USD", id="short")


@pytest.mark.parametrize("codec", [None, Scrambled()], ids=["plain", "encrypted"])
def test_another_workflow_or_version_or_other_arguments_under_a_taken_id_are_refused(
    tmp_path: Path, codec: hf.types.Codec | None
) -> None:
    with shop(tmp_path, codec) as app:
        pay = app.registry.find("pay", 1)
        assert app.start(pay, 100, id="x-1").result(60) == "paid 100 EUR"
        others: list[tuple[Any, int]] = [("refund", 100), (app.registry.find("pay", 2), 100), (pay, 101)]
        for workflow, cents in others:
            with pytest.raises(hf.errors.IdTaken, match="HF5203") as caught:
                app.start(workflow, cents, id="x-1")
            assert "x-1" in str(caught.value)
        with pytest.raises(hf.errors.IdTaken):
            app.start(pay, 100, "USD", id="x-1")


@pytest.mark.parametrize("codec", [None, Scrambled()], ids=["plain", "encrypted"])
def test_the_same_call_under_the_same_id_stays_one_execution(
    tmp_path: Path, codec: hf.types.Codec | None
) -> None:
    with shop(tmp_path, codec) as app:
        pay, tagged = app.registry.find("pay", 1), app.registry.find("tagged")
        app.start(pay, 100, id="x-1")
        app.start(pay, 100, id="x-1")
        app.start(pay, cents=100, id="x-1")  # by its name
        app.start("pay", 100, id="x-1")  # by the workflow's name: whatever version there is
        assert app.start(pay, 100, id="x-1").result(60) == "paid 100 EUR"
        app.start(tagged, {f"a{number}" for number in range(50)}, id="t")
        assert app.start(tagged, {f"a{number}" for number in reversed(range(50))}, id="t").result(60) == 50


def test_an_id_of_something_that_is_no_execution_is_taken(tmp_path: Path) -> None:
    with shop(tmp_path) as app:
        note = app.tasks.find("note")
        assert note.with_options(id="n-1").try_send("hello").is_ok  # type: ignore[attr-defined]
        with pytest.raises(hf.errors.IdTaken, match="background task"):
            app.start("note", "hello", id="n-1")


async def test_in_asyncio_whoever_awaits_the_start_or_the_result_is_told(tmp_path: Path) -> None:
    async with shop(tmp_path) as app:
        pay = app.registry.find("pay", 1)
        await app.start(pay, 100, id="x-1").started()
        with pytest.raises(hf.errors.IdTaken):
            await app.start(pay, 200, id="x-1").started()
        with pytest.raises(hf.errors.IdTaken):
            await app.start("refund", 100, id="x-1")
        assert await app.handle("x-1") == "paid 100 EUR"


def test_of_two_who_start_at_once_one_wins_and_the_other_is_told(tmp_path: Path) -> None:
    with shop(tmp_path) as app:
        pay, told = app.registry.find("pay", 1), dict[int, str]()
        together = threading.Barrier(8)

        def start(cents: int) -> None:
            together.wait()
            try:
                told[cents] = app.start(pay, cents, id="x-1").result(60)
            except hf.errors.IdTaken:
                told[cents] = "taken"

        threads = [threading.Thread(target=start, args=(cents,)) for cents in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    [winner] = [cents for cents in told if told[cents] != "taken"]
    assert told[winner] == f"paid {winner} EUR"


async def test_what_an_official_sdk_started_is_found_by_the_same_call(tmp_path: Path) -> None:
    async with shop(tmp_path) as app:
        param = Value(None, app.payloads.encode({"version": 1, "args": [100], "func": "pay"}).data)
        creation = PromiseCreate("sdk", 2**53 - 1, param, {"resonate:target": "poll://any@default"})
        [reply] = await app.session.task_client.caller.client.request([ask(creation)])
        assert reply.status == 200
        pay = app.registry.find("pay", 1)
        async with asyncio.timeout(60):
            assert await app.start(pay, 100, id="sdk") == "paid 100 EUR"
        with pytest.raises(hf.errors.IdTaken):
            await app.start(pay, 7, id="sdk").started()


def test_the_console_refuses_a_taken_id_too(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holdfast.db"
    with hf.App(url, worker=False):
        pass
    invoke = ["invoke", "x-1", "--func", "pay", "-S", url]
    assert holdfast(*invoke, "--arg", "100").code == 0
    assert holdfast(*invoke, "--arg", "100").code == 0, "the same again"
    other = holdfast(*invoke, "--arg", "101")
    assert other.code == 1
    assert "HF5203" in other.err
    assert "HF5203" in holdfast("invoke", "x-1", "--func", "refund", "--arg", "100", "-S", url).err


async def test_a_call_whose_id_somebody_else_has_used_is_refused_and_stays_so(tmp_path: Path) -> None:
    """The ids of what a workflow asks for are counted: `c:1`, `c:2`. Nobody keeps others from using them."""
    app = shop(tmp_path)

    @app.workflow
    async def calls() -> list[str]:
        told: list[str] = []
        for work in (lambda: hf.call("refund", 7), lambda: hf.promise(str), lambda: hf.run(str, 5)):
            try:
                told.append(str(await work()))
            except hf.errors.IdTaken as error:
                told.append(error.code)
        await hf.sleep(0.01)
        return told

    async with app:
        for number in (1, 2, 3):
            await app.start("refund", 100, id=f"c:{number}")
        async with asyncio.timeout(60):
            assert await app.start(calls, id="c") == ["HF5203"] * 3
        assert await app.handle("c:1") == "refunded 100"


def test_a_version_that_nobody_has_names_those_that_are_there(tmp_path: Path) -> None:
    registry = shop(tmp_path).registry
    with pytest.raises(hf.errors.UnknownWorkflow, match=r"'pay' version 9 .*\(known: versions 1, 2\)"):
        registry.find("pay", 9)
    with pytest.raises(hf.errors.UnknownWorkflow, match=r"'paid' is not .*\(known: pay, refund, tagged\)"):
        registry.find("paid")
