"""Payloads: what goes in comes out, typed; what cannot is refused by place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import msgspec
import pytest

from holdfast.payloads.errors import BadArguments, UndecodablePayload, UnencodablePayload
from holdfast.payloads.jsonable import find_foreign_class
from holdfast.payloads.payloads import Chain, Payloads
from holdfast.payloads.signature import signature_of
from holdfast.protocol.records import Value
from holdfast.runtime import Operation, named

payloads = Payloads()


class Colour(Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


class Card(msgspec.Struct):
    number: str


@dataclass
class Order:
    id: UUID
    total: Decimal
    at: datetime
    colour: Colour = Colour.RED
    card: Card | None = None
    lines: list[Point] = field(default_factory=list[Point])


ORDER = Order(
    UUID(int=7), Decimal("1.10"), datetime(2026, 1, 2, tzinfo=UTC), card=Card("42"), lines=[Point(1, 2)]
)


def json_of(value: Value) -> Any:
    assert value.data is not None
    return json.loads(b64decode(value.data))


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (None, int),
        (True, bool),
        (5, int),
        (2**80, int),
        (0.1, float),
        ("héllo\n", str),
        (b"\x00\xff", bytes),
        ((1, "a"), tuple[int, str]),
        ({1, 2}, set[int]),
        (frozenset({"a"}), frozenset[str]),
        ({1: "a"}, dict[int, str]),
        (date(2026, 1, 2), date),
        (timedelta(days=1, seconds=2), timedelta),
        (Decimal("1.10"), Decimal),
        (UUID(int=1), UUID),
        (Colour.RED, Colour),
        (Point(1, 2), Point),
        (Card("1"), Card),
        (ORDER, Order),
        ([ORDER, ORDER], list[Order]),
        ("a", Literal["a", "b"]),
        ([1, None], list[int | None]),
    ],
)
def test_a_typed_value_comes_back_as_it_went(value: Any, type_: Any) -> None:
    back = payloads.decode(payloads.encode(value), type_)
    assert back == value
    assert type(back) is type(value)


def test_without_a_type_a_value_comes_back_as_json_has_it() -> None:
    assert payloads.decode(payloads.encode((1, Point(2, 3), Decimal("1.5")))) == [1, [2, 3], "1.5"]


def test_object_is_anything() -> None:
    """As in `dict[str, object]`, which strict type checkers suggest in place of Any."""
    value = {"a": [1, "two", None]}
    for type_ in (object, dict[str, object]):
        assert payloads.decode(payloads.encode(value), type_) == value
        assert find_foreign_class(type_) is None


def test_a_round_trip_shows_live_code_what_a_replay_will_see() -> None:
    value, seen = payloads.round_trip((1, 2), list[int])
    assert seen == [1, 2]
    assert payloads.decode(value, list[int]) == seen
    assert payloads.round_trip(None) == (Value(), None)


def test_none_is_absent_data() -> None:
    assert payloads.encode(None) == Value()
    assert payloads.encode(None, {"a": "b"}) == Value({"a": "b"})
    assert payloads.decode(Value()) is None


def test_the_data_is_base64_of_json() -> None:
    assert payloads.encode({"a": 1}) == Value(None, b64encode(b'{"a":1}').decode())


def test_headers_travel_beside_the_data() -> None:
    assert payloads.encode(1, {"kind": "x"}).headers == {"kind": "x"}


@pytest.mark.parametrize(
    ("value", "place", "type_name"),
    [
        (object(), "The value cannot", "object"),
        ({"lines": [1, open]}, "['lines'][1]", "builtin_function_or_method"),
        (Order(UUID(int=1), Decimal(1), datetime.now(UTC), card=print), "The value at card", "builtin"),  # type: ignore[arg-type] # pyright: ignore
        ([{"a": float("nan")}], "[0]['a']", "nan"),
        (float("inf"), "The value cannot", "inf"),
        ({(1, 2): 3}, "its key (1, 2)", "tuple"),
        ("\ud800", "The value cannot", "str"),
    ],
)
def test_what_cannot_be_encoded_is_refused_by_place_and_type(value: Any, place: str, type_name: str) -> None:
    with pytest.raises(UnencodablePayload) as caught:
        payloads.encode(value)
    assert place in str(caught.value)
    assert type_name in str(caught.value)
    assert "HF5001" in str(caught.value)


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(UnencodablePayload, match="contains itself"):
        payloads.encode(value)


def test_a_null_is_not_mistaken_for_a_nan() -> None:
    assert payloads.decode(payloads.encode({"a": None, "b": [1.5, "null", ORDER]}))["a"] is None


@pytest.mark.parametrize(
    ("value", "type_", "says"),
    [
        (Value(None, "***"), Any, "base64"),
        (Value(None, b64encode(b"{").decode()), Any, "cannot be read"),
        (Value(None, b64encode(b'"a"').decode()), int, "Expected int, got str ('a')"),
        (Value(None, b64encode(b'{"number":1}').decode()), Card, "at number"),
        (Value(None, b64encode(b"1").decode()), Callable, "cannot be made from JSON"),
    ],
)
def test_a_payload_that_does_not_fit_says_where(value: Value, type_: Any, says: str) -> None:
    with pytest.raises(UndecodablePayload) as caught:
        payloads.decode(value, type_)
    assert says in str(caught.value)


def test_a_type_with_unhashable_parts_decodes_too() -> None:
    assert payloads.decode(payloads.encode(1), Annotated[int, ["unhashable"]]) == 1


# -- models of other libraries


def test_attrs_classes_are_typed_on_both_sides() -> None:
    attrs = pytest.importorskip("attrs")
    fields = {"name": attrs.field(type=str), "born": attrs.field(type=date)}
    person_class: Any = attrs.make_class("Person", fields)
    person = person_class("Ada", date(1815, 12, 10))
    assert payloads.decode(payloads.encode(person), person_class) == person
    with pytest.raises(UnencodablePayload, match="born"):
        payloads.encode(person_class("Ada", object()))


def test_pydantic_models_are_typed_on_both_sides() -> None:
    pydantic = pytest.importorskip("pydantic")
    person_class: Any = pydantic.create_model(
        "Person", name=(str, pydantic.Field(alias="fullName")), total=(Decimal, ...), at=(datetime, ...)
    )
    person = person_class(fullName="Ada", total=Decimal("1.10"), at=datetime(2026, 1, 1, tzinfo=UTC))
    assert payloads.decode(payloads.encode(person), person_class) == person
    assert payloads.decode(payloads.encode([person]), list[person_class]) == [person]
    assert payloads.digest((person,), {}) is not None
    with pytest.raises(UndecodablePayload, match="fullName"):
        payloads.decode(payloads.encode({"total": "1"}), person_class)


# -- codecs


class Zip:
    def encode(self, raw: bytes) -> bytes:
        return zlib.compress(raw)

    def decode(self, raw: bytes) -> bytes:
        return zlib.decompress(raw)


class Mask:
    def encode(self, raw: bytes) -> bytes:
        return bytes(byte ^ 0x5A for byte in raw)

    decode = encode


def test_a_codec_stands_between_json_and_the_store() -> None:
    coded = Payloads(Chain(Zip(), Mask()))
    value = coded.encode("a" * 1000)
    assert value.data is not None
    assert len(value.data) < 100
    assert coded.decode(value, str) == "a" * 1000
    assert isinstance(coded.decode_error(coded.encode_error(KeyError("a"))), KeyError)
    assert coded.decode_call(coded.encode_call("f", (1,), {}, 1)).function == "f"


def test_a_payload_of_another_codec_is_refused() -> None:
    with pytest.raises(UndecodablePayload, match="codec"):
        Payloads(Zip()).decode(payloads.encode("plain"))


# -- calls


def checkout(order: Order, *, note: str = "", when: date | None = None) -> Card:
    raise NotImplementedError


def arguments_of(
    function: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return payloads.bind_arguments(function, payloads.decode_call(payloads.encode_call("f", args, kwargs, 1)))


def test_a_call_has_the_form_of_the_official_sdks() -> None:
    assert json_of(payloads.encode_call("f", (1, "a"), {}, 2)) == {
        "func": "f",
        "args": [1, "a"],
        "version": 2,
    }
    assert json_of(payloads.encode_call("f", (), {"a": 1}, 1)) == {
        "func": "f",
        "args": [],
        "kwargs": {"a": 1},
        "version": 1,
    }


def test_a_call_of_the_typescript_sdk_is_understood() -> None:
    text = b'{"func":"f","args":[7],"retry":{"type":"exponential"},"version":3}'
    call = payloads.decode_call(Value({}, b64encode(text).decode()))
    assert (call.function, call.version) == ("f", 3)
    assert payloads.bind_arguments(untyped, call) == ((7,), {})


@pytest.mark.parametrize("data", [None, b64encode(b"{}").decode(), b64encode(b'["f"]').decode()])
def test_a_parameter_that_is_no_call_is_refused(data: str | None) -> None:
    with pytest.raises(UndecodablePayload):
        payloads.decode_call(Value(None, data))


def test_arguments_get_the_types_of_their_parameters() -> None:
    assert arguments_of(checkout, ORDER, when=date(2026, 1, 2)) == ((ORDER,), {"when": date(2026, 1, 2)})


def test_star_arguments_are_typed_one_by_one() -> None:
    def gather(first: int, *rest: Decimal, **more: UUID) -> None: ...

    assert arguments_of(gather, 1, Decimal(2), Decimal(3), a=UUID(int=1)) == (
        (1, Decimal(2), Decimal(3)),
        {"a": UUID(int=1)},
    )


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((), {}, "'order' is missing"),
        ((ORDER, 1), {}, "1 positional argument(s) too many"),
        ((ORDER,), {"order": ORDER}, "'order' was given twice"),
        ((ORDER,), {"nonsense": 1}, "no parameter 'nonsense'"),
        (({"id": "x"},), {}, "'order' does not fit"),
        ((ORDER,), {"note": 5}, "'note' does not fit"),
    ],
)
def test_a_call_that_does_not_fit_says_which_argument(
    args: tuple[Any, ...], kwargs: dict[str, Any], says: str
) -> None:
    with pytest.raises(BadArguments) as caught:
        arguments_of(checkout, *args, **kwargs)
    assert says in str(caught.value)
    assert "checkout(order: Order" in str(caught.value)


def test_supplied_parameters_are_not_part_of_the_call() -> None:
    def handle_by_name(order_id: int, database: Any, note: str) -> None: ...

    supplied = frozenset({"database"})
    call = payloads.decode_call(payloads.encode_call("f", (7, "x"), {}, 1))
    assert payloads.bind_arguments(handle_by_name, call, supplied) == ((), {"order_id": 7, "note": "x"})
    forged = payloads.decode_call(payloads.encode_call("f", (), {"database": 1}, 1))
    with pytest.raises(BadArguments, match="supplied by the application"):
        payloads.bind_arguments(handle_by_name, forged, supplied)


class Shop:
    def sell(self, order: Order) -> Decimal:
        raise NotImplementedError

    async def __call__(self, order: Order) -> UUID:
        raise NotImplementedError


def test_methods_and_callable_objects_have_signatures() -> None:
    assert arguments_of(Shop().sell, ORDER) == ((ORDER,), {})
    assert arguments_of(Shop(), ORDER) == ((ORDER,), {})
    assert signature_of(Shop().sell).returns is Decimal
    assert signature_of(Shop()).returns is UUID
    assert signature_of(Shop.sell).returns is Decimal


async def fetch() -> Order:
    raise NotImplementedError


def fetch_later() -> Coroutine[Any, Any, Order]:
    raise NotImplementedError


def fetch_in_generator() -> Generator[Any, Any, Order]:
    raise NotImplementedError


def fetch_operation() -> Operation[Order]:
    raise NotImplementedError


@pytest.mark.parametrize(
    "function",
    [fetch, fetch_later, fetch_in_generator, fetch_operation, partial(fetch), named("x", fetch), Order],
)
def test_the_type_of_a_functions_value_is_read_from_its_annotation(function: Callable[..., Any]) -> None:
    assert signature_of(function).returns is Order


def untyped(a: Any, b: Any = 1) -> Any: ...


untyped.__annotations__.clear()


def ghostly(a: Any, b: Order) -> Any: ...


ghostly.__annotations__ |= {"a": "Ghost", "return": "Ghost"}  # as if imported for type checkers only


def returns_none() -> None: ...


@pytest.mark.parametrize("function", [untyped, ghostly, returns_none, len, print, lambda: 1])
def test_what_no_annotation_tells_is_any(function: Callable[..., Any]) -> None:
    assert signature_of(function).returns is Any


def test_an_annotation_that_cannot_be_evaluated_does_not_spoil_the_others() -> None:
    assert arguments_of(ghostly, {"any": "thing"}, ORDER) == (({"any": "thing"}, ORDER), {})


async def forgotten() -> int:
    return 1


def test_a_call_that_was_not_awaited_is_named() -> None:
    call = forgotten()
    with pytest.raises(
        UnencodablePayload, match=r"receipt.* cannot be encoded: it was not awaited \(<coroutine"
    ):
        payloads.encode({"receipt": call})
    call.close()


# -- digests


def test_a_digest_depends_on_the_value_alone() -> None:
    assert payloads.digest(({"a": 1, "b": 2},), {}) == payloads.digest(({"b": 2, "a": 1},), {})
    assert payloads.digest((1,), {}) != payloads.digest((2,), {})
    assert payloads.digest((1,), {}) != payloads.digest((), {"a": 1})
    assert payloads.digest((), {"a": 1, "b": 2}) == payloads.digest((), {"b": 2, "a": 1})
    assert payloads.digest(({1: "a", 10: "b"},), {}) == payloads.digest(({10: "b", 1: "a"},), {})


def test_arguments_that_are_not_data_have_no_digest() -> None:
    assert payloads.digest((object(),), {}) is None
    assert payloads.digest(({(1, 2): 3},), {}) is None


def test_a_digest_is_the_same_in_every_process() -> None:
    program = (
        "from holdfast.payloads.payloads import Payloads\n"
        "print(Payloads().digest(({'b', 'a', 'c', 1, None}, {3: 'y', 'z': {'q', 'r'}}), {'k': (1, 2)}))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(seen) == 1
    assert len(seen.pop().strip()) == 16
