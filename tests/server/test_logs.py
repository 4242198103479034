"""Every field that is logged is shown, except for what may hold a secret; nobody can forge a line."""

import json
import logging
from typing import Any

import pytest

from holdfast.server.logs import JsonLines


def shown(extra: dict[str, Any], message: str = "hello", **more: Any) -> dict[str, Any]:
    record = logging.getLogger("holdfast.x").makeRecord(
        "holdfast.x", logging.INFO, __file__, 1, message, (), more.get("exc_info"), extra=extra
    )
    line = JsonLines().format(record)
    assert not [char for char in line if not char.isprintable()], line
    return json.loads(line)  # type: ignore[no-any-return]


def test_every_field_beside_a_message_is_shown() -> None:
    extra = {
        "record": "p",
        "promises": 5,
        "trees": 2,
        "address": "poll://any@g",
        "bytes": 9,
        "retry_in_s": 0.5,
    }
    line = shown(extra)
    assert {name: line[name] for name in extra} == extra
    assert set(line) == {"time", "level", "logger", "message", *extra}


@pytest.mark.parametrize(
    "name",
    ["token", "push_token", "authorization", "headers", "param", "value", "payload", "Password", "data"],
)
def test_what_may_hold_a_secret_or_a_payload_is_not_shown(name: str) -> None:
    assert "CANARY" not in json.dumps(shown({name: "CANARY"}))


def test_a_password_in_a_url_is_not_shown() -> None:
    assert shown({"address": "https://user:CANARY@example.org/x"})["address"] == "https://...@example.org/x"
    assert shown({"store": "postgresql://db/h?password=CANARY"})["store"] == "postgresql://db/h?password=..."


def test_a_value_of_any_kind_can_be_shown() -> None:
    class Mute:
        def __str__(self) -> str:
            raise RuntimeError

    extra = {"a": object, "b": Mute(), "c": ValueError("no"), "d": "\ud800", "e": None, "f": "x" * 5_000}
    line = shown(extra)
    assert line["b"] == "<its __str__ raised RuntimeError>"
    assert line["c"] == "no"
    assert line["d"] == "\ud800"
    assert "e" not in line
    assert len(line["f"]) == 1_000


def test_a_field_cannot_replace_what_the_line_itself_says() -> None:
    line = shown({"time": "never", "level": "none", "logger": "other"})
    assert (line["level"], line["logger"]) == ("info", "holdfast.x")
    assert line["time"] != "never"


def test_a_terminal_obeys_nothing_in_a_line_and_json_means_the_same() -> None:
    text = "a\x1b[31m\r\nb\x9b\x7f\u202e\u2028"
    assert shown({"execution": text}, message=text)["execution"] == text


def test_the_text_of_an_exception_is_not_shown() -> None:
    try:
        raise ValueError("CANARY")
    except ValueError as error:
        line = shown({}, exc_info=(ValueError, error, error.__traceback__))
    assert line["error"] == "ValueError"
    assert "test_logs.py" in line["where"][0]
    assert "CANARY" not in json.dumps(line)
