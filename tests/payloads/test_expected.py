"""Errors about payloads name what was expected and what came, where, and how large it was."""

import datetime
import enum
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import pytest
import sqlalchemy

import holdfast as hf
from holdfast.node.callers_transaction import request_inside
from holdfast.payloads.errors import (
    BadArguments,
    NotRecorded,
    PayloadTooLarge,
    UndecodablePayload,
    UnencodablePayload,
)
from holdfast.payloads.payloads import PAYLOAD_BYTES_MAX, Payloads, load
from holdfast.payloads.signature import signature_of
from holdfast.protocol import limits
from holdfast.store.interface import CannotJoin
from holdfast.testing import World


@dataclass
class Item:
    price: int
    tags: list[str]


@dataclass
class Order:
    id: str
    items: list[Item]


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("type_", "raw", "sentence"),
    [
        (int, '"12"', "Expected int, got str ('12')"),
        (int, "null", "Expected int, got None"),
        (int | None, '"x"', "Expected int | None, got str ('x')"),
        (Order, '"x"', "Expected Order, got str ('x')"),
        (Order, '{"id": "1"}', "Expected Order, got dict without 'items' ({'id': '1'})"),
        (
            Order,
            '{"id": "1", "items": [{"price": "9", "tags": []}]}',
            "Expected int, got str ('9') at items[0].price",
        ),
        (
            Order,
            '{"id": "1", "items": [{"price": 9}]}',
            "Expected dict with 'tags', got dict ({'price': 9}) at items[0]",
        ),
        (Colour, '"blue"', "Expected Colour, got 'blue': Invalid enum value 'blue'"),
        (datetime.date, '"soon"', "Expected date, got 'soon': Invalid RFC3339 encoded date"),
        (Annotated[int, msgspec.Meta(ge=3)], "1", "Expected int, got 1: Expected int >= 3"),
        (dict[str, int], '{"a": "b"}', "Expected int, got str at [...]"),
        (list[int], "{}", "Expected list[int], got dict ({})"),
    ],
)
def test_an_error_names_what_was_expected_and_what_came(type_: Any, raw: str, sentence: str) -> None:
    with pytest.raises(UndecodablePayload) as caught:
        load(raw.encode(), type_)
    assert caught.value.what == sentence


def test_a_long_value_is_cut_and_what_is_no_json_is_not_quoted() -> None:
    with pytest.raises(UndecodablePayload) as caught:
        load(b'"' + b"x" * 5_000 + b'"', int)
    assert len(caught.value.what) < 120
    with pytest.raises(UndecodablePayload, match="Expected int, got something that cannot be read"):
        load(b"\xff{", int)


def test_an_argument_that_does_not_fit_is_named_with_both_sides() -> None:
    def charge(card: str, cents: int) -> None: ...

    with pytest.raises(BadArguments) as caught:
        Payloads().encode_call("charge", ("4242", "12"), {}, 1, signature_of(charge))
    sentence = "charge(card: str, cents: int): 'cents' does not fit. Expected int, got str ('12')"
    assert caught.value.what == sentence


class Reverse:
    def encode(self, raw: bytes, /) -> bytes:
        return raw[::-1] * 2

    def decode(self, raw: bytes, /) -> bytes:
        return raw[: len(raw) // 2][::-1]


def test_what_a_codec_hides_is_not_told_in_an_error() -> None:
    hidden = Payloads(Reverse())
    with pytest.raises(UndecodablePayload) as caught:
        hidden.decode(hidden.encode("secret"), int)
    assert caught.value.what == "Expected int, got str"


# --- how large -----------------------------------------------------------------------------------------


def test_the_limit_of_a_payload_counts_the_bytes_of_its_json() -> None:
    """All that fit are taken by a node, whose own limit counts base64."""
    fits = "x" * (PAYLOAD_BYTES_MAX - 2)
    data = Payloads().encode(fits).data
    assert data is not None
    assert limits.data_bytes_max - 3 <= len(data) <= limits.data_bytes_max
    with pytest.raises(PayloadTooLarge, match=r"786,433 bytes as JSON; the limit is 786,432.*HF5023"):
        Payloads().encode(f"{fits}x")
    with pytest.raises(PayloadTooLarge, match="600,002 bytes as JSON, and 1,200,004 after the codec"):
        Payloads(Reverse()).encode("x" * 600_000)
    assert issubclass(PayloadTooLarge, UnencodablePayload)
    assert issubclass(PayloadTooLarge, NotRecorded)


def test_what_is_too_large_is_refused_where_it_is_passed() -> None:
    app = hf.App()

    @app.workflow
    async def echo(text: str) -> str:
        return await hf.promise(str)

    with World(app) as world:
        with pytest.raises(PayloadTooLarge, match="HF5023"):
            app.start(echo, "x" * 800_000)
        handle = app.start(echo, "x", id="e")
        world.elapse(1)
        with pytest.raises(PayloadTooLarge, match="HF5023"):
            app.resolve("e:1", "x" * 800_000)
        app.resolve("e:1", "x" * 700_000)
        assert len(handle.result()) == 700_000


# --- connections ---------------------------------------------------------------------------------------


def test_for_an_engine_of_sqlalchemy_the_error_says_what_to_pass() -> None:
    with pytest.raises(CannotJoin, match=r"got sqlalchemy\..*Engine\. Pass a session or a connection of it"):
        request_inside(sqlalchemy.create_engine("sqlite://"), [], 0)


def test_for_anything_else_the_error_names_its_type() -> None:
    with pytest.raises(CannotJoin, match=r"psycopg or asyncpg connection, got str"):
        request_inside("sqlite:///shop.db", [], 0)
