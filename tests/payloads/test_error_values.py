"""Errors cross the durable boundary as themselves when their class is known, and as text when not."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from base64 import b64decode, b64encode
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

import holdfast as hf
from holdfast.payloads.error_values import (
    TRACEBACK_CHARS_MAX,
    KnownErrors,
    register_error,
    register_error_as,
    remote_traceback,
    restore,
)
from holdfast.payloads.errors import RemoteError, StepTimedOut
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.errors import ClaimLost
from holdfast.protocol.records import Value

payloads = Payloads()


class Declined(Exception):
    def __init__(self, card: str, amount: int) -> None:
        super().__init__(f"{card} was declined")
        self.card = card
        self.amount = amount


@dataclass
class OutOfStock(Exception):
    item: str
    left: int = 0


@dataclass(frozen=True)
class Frozen(Exception):
    item: str


class Exact(Exception):
    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __str__(self) -> str:
        return f"{self.cents:d} cents are missing"


class Stubborn(Exception):
    def __new__(cls, *args: Any) -> Stubborn:
        raise AssertionError("a payload must not run this")


def crossed(error: BaseException) -> Exception:
    try:
        raise error
    except BaseException as caught:
        return payloads.decode_error(payloads.encode_error(caught))


def data_of(value: Value) -> dict[str, Any]:
    assert value.data is not None
    return json.loads(b64decode(value.data))  # type: ignore[no-any-return]


def stored(data: Any) -> Value:
    return Value(None, b64encode(json.dumps(data).encode()).decode())


@pytest.mark.parametrize(
    "error", [ValueError("bad", 1), KeyError("k"), ZeroDivisionError(), FileNotFoundError(2, "none", "f.txt")]
)
def test_a_builtin_error_crosses_as_itself(error: Exception) -> None:
    back = crossed(error)
    assert type(back) is type(error)
    assert back.args == error.args
    assert str(back) == str(error)


def test_a_class_of_ones_own_crosses_with_its_attributes() -> None:
    back = crossed(Declined("visa", 7))
    assert isinstance(back, Declined)
    assert (back.card, back.amount, str(back)) == ("visa", 7, "visa was declined")


def test_an_error_that_is_a_dataclass_crosses() -> None:
    assert crossed(OutOfStock("tea", 3)) == OutOfStock("tea", 3)


def test_holdfasts_own_errors_cross_with_their_code() -> None:
    back = crossed(StepTimedOut("It took too long"))
    assert isinstance(back, StepTimedOut)
    assert str(back).endswith("[HF5004]")
    assert isinstance(crossed(ClaimLost("Gone")), ClaimLost)
    assert data_of(payloads.encode_error(ClaimLost("Gone")))["code"] == "HF1201"


def test_the_remote_traceback_is_the_cause() -> None:
    back = crossed(Declined("visa", 7))
    text = remote_traceback(back)
    assert text is not None
    assert "in crossed" in text
    assert "visa was declined" in "".join(traceback.format_exception(back))


def test_a_class_that_is_not_loaded_arrives_as_a_remote_error() -> None:
    local = type("Elsewhere", (Exception,), {"__module__": "not_here"})
    back = crossed(local("far away"))
    assert isinstance(back, RemoteError)
    assert (back.message, back.type_name) == ("far away", "not_here:Elsewhere")
    assert "Elsewhere: far away" in back.remote_traceback


def test_nothing_is_imported_because_a_payload_names_it() -> None:
    sys.modules.pop("this", None)
    back = payloads.decode_error(stored({"__type": "error", "message": "x", "type": "this:Zen"}))
    assert isinstance(back, RemoteError)
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "type_name",
    [
        "builtins:eval",
        "os:system",
        "builtins:KeyboardInterrupt",
        "builtins:",
        ":",
        "builtins:str.join",
        "sys:modules",
    ],
)
def test_a_name_that_is_no_exception_class_arrives_as_a_remote_error(type_name: str) -> None:
    back = payloads.decode_error(
        stored({"__type": "error", "message": "x", "type": type_name, "args": ["ls"]})
    )
    assert isinstance(back, RemoteError)


def test_rebuilding_runs_no_code_of_the_class() -> None:
    name = f"{__name__}:Stubborn"
    assert isinstance(payloads.decode_error(stored({"message": "x", "type": name})), RemoteError)


def test_a_payload_cannot_reach_dunder_attributes() -> None:
    state = {"__class__": "x", "__cause__": "y", "card": "amex"}
    fields = {"message": "x", "type": f"{__name__}:Declined", "state": state}
    back = payloads.decode_error(stored(fields))
    assert vars(back) == {"card": "amex"}


@pytest.mark.parametrize(
    "fields", [{"args": 5}, {"args": {}}, {"state": [1]}, {"args": [1, 2, 3], "errors": 1}]
)
def test_a_malformed_description_is_no_crash(fields: dict[str, Any]) -> None:
    for cls in ("UnicodeDecodeError", "ExceptionGroup", "ValueError"):
        back = payloads.decode_error(stored({"message": "x", "type": f"builtins:{cls}", **fields}))
        assert isinstance(back, Exception)


def test_known_classes_can_be_given() -> None:
    fields = stored({"__type": "error", "message": "no", "type": "old.module:Refused", "args": ["no"]})
    assert isinstance(payloads.decode_error(fields, {"old.module:Refused": Declined}), Declined)
    register_error_as("old.module:Refused", LookupError)
    assert isinstance(payloads.decode_error(fields), LookupError)


def test_a_registered_class_needs_no_module() -> None:
    module = ModuleType("passing_by")
    cls = register_error(type("Passing", (Exception,), {"__module__": "passing_by"}))
    assert "passing_by" not in sys.modules
    assert type(crossed(cls("x"))) is cls
    assert module


def test_a_group_crosses_with_its_members() -> None:
    error = ExceptionGroup("two", [Declined("visa", 1), ExceptionGroup("one", [KeyError("k")])])
    back: Any = crossed(error)
    assert isinstance(back.exceptions[0], Declined)
    assert repr(back) == repr(error)


def test_an_error_passed_on_by_somebody_who_does_not_know_it_is_known_again() -> None:
    unknown = payloads.decode_error(
        stored({"__type": "error", "message": "no", "type": "builtins:Nothing", "traceback": "there"})
    )
    again = data_of(payloads.encode_error(unknown))
    assert (again["type"], again["message"], again["traceback"]) == ("builtins:Nothing", "no", "there")


def test_arguments_that_json_cannot_carry_are_left_out() -> None:
    back = crossed(ValueError("bad", object()))
    assert isinstance(back, ValueError)
    assert "bad" in str(back)


def test_what_official_sdks_and_people_reject_with_is_understood() -> None:
    def message_of(data: Any) -> str:
        return str(payloads.decode_error(stored(data)))

    assert message_of({"__type": "error", "message": "no"}) == "no"
    assert (
        message_of({"__type": "error", "message": "no", "name": "TypeError", "stack": "at x"})
        == "TypeError: no"
    )
    assert message_of("just text") == "just text"
    assert message_of({"why": 1}) == '{"why":1}'
    assert message_of([1, 2]) == "[1,2]"
    assert str(payloads.decode_error(Value())) == ""


def test_official_sdks_find_what_they_look_for() -> None:
    data = data_of(payloads.encode_error(ValueError("no")))
    assert (data["__type"], data["message"], data["name"]) == ("error", "no", "ValueError")


def test_an_error_that_cannot_even_be_printed_is_described() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "RuntimeError" in data_of(payloads.encode_error(Mute(object())))["message"]


def test_a_traceback_is_bounded() -> None:
    assert (
        len(data_of(payloads.encode_error(ValueError("x" * 100_000)))["traceback"]) < TRACEBACK_CHARS_MAX + 10
    )


def test_an_error_that_forbids_assignment_comes_back_as_itself_with_its_traceback() -> None:
    error = crossed(Frozen("book"))
    assert type(error) is Frozen
    assert error.item == "book"
    assert "Frozen" in (remote_traceback(error) or "")


def test_an_error_that_could_not_say_what_it_is_comes_back_as_text() -> None:
    whole = crossed(Exact(5))
    assert type(whole) is Exact
    assert str(whole) == "5 cents are missing"
    forged: dict[str, Any] = {"__type": "error", "message": "no", "type": f"{__name__}:Exact", "args": []}
    for state in ({}, {"cents": "many"}, {"cents": None}):
        error = restore(forged | {"state": state}, KnownErrors())
        assert type(error) is RemoteError
        assert str(error) == f"{__name__}:Exact: no"


def test_what_every_exception_has_cannot_be_hidden_by_a_payload() -> None:
    state = {"with_traceback": 1, "add_note": 2, "args": 3, "item": "book"}
    forged: dict[str, Any] = {
        "__type": "error",
        "message": "no",
        "type": f"{__name__}:OutOfStock",
        "args": [],
        "state": state,
    }
    error = restore(forged, KnownErrors())
    assert type(error) is OutOfStock
    assert vars(error) == {"item": "book"}


@pytest.mark.parametrize(
    "name",
    ["lazy:Late", "lazy:late.Late", "lazy:trap.Late", "lazy:Holder.made", "lazy:Class", "lazy:", ":x", ""],
)
def test_a_name_in_a_payload_imports_nothing_and_runs_no_code(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    ran: list[str] = []

    class Trap:
        def __getattribute__(self, name: str) -> Any:
            ran.append(name)
            return ValueError

    class Meta(type):
        def __getattr__(cls, name: str) -> Any:
            ran.append(name)
            return ValueError

    class Holder(metaclass=Meta):
        @property
        def made(self) -> type[Exception]:
            ran.append("made")
            return ValueError

    def late(name: str) -> Any:
        ran.append(name)
        return ValueError

    module = ModuleType("lazy")
    vars(module).update({"__getattr__": late, "trap": Trap(), "Holder": Holder, "Class": int})
    monkeypatch.setitem(sys.modules, "lazy", module)
    assert KnownErrors().get(name) is None
    assert type(restore({"__type": "error", "message": "", "type": name}, KnownErrors())) is RemoteError
    assert ran == []


def test_a_pool_that_is_imported_when_it_is_asked_for_is_not_found_by_name() -> None:
    names = ["concurrent.futures:ProcessPoolExecutor", "concurrent.futures:ThreadPoolExecutor"]
    code = (
        "import concurrent.futures, sys; from holdfast.payloads.error_values import KnownErrors; "
        f"before = set(sys.modules); found = [KnownErrors().get(n) for n in {names!r}]; "
        "print(found, sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[None, None] []"


def test_an_exception_class_within_a_class_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("shelf")

    class Shelf:
        class Empty(Exception):
            pass

    vars(module)["Shelf"] = Shelf
    monkeypatch.setitem(sys.modules, "shelf", module)
    assert KnownErrors()["shelf:Shelf.Empty"] is Shelf.Empty


def test_a_traceback_shows_the_code_of_users_and_none_of_ours() -> None:
    app = hf.App("memory:")

    def fails() -> None:
        raise ValueError("card declined")

    @app.workflow
    async def checkout() -> None:
        await hf.run(fails)

    with app, pytest.raises(ValueError, match="card declined") as raised:
        app.start(checkout).result()
    text = remote_traceback(raised.value)
    assert text is not None
    assert "in fails" in text
    assert "in checkout" in text
    assert "/holdfast/workflow/" not in text
    assert "/holdfast/runtime/" not in text
