"""A short run of the fuzzer, and proof that it finds what is there. `make fuzz` is the long one."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from holdfast.server.management.routes import ROUTES
from tests.fuzz.management_surface import make_request, wrong_with
from tests.fuzz.mutation import damage_bytes, damage_json
from tests.fuzz.run import fuzz, run
from tests.fuzz.target import Target
from tests.seeds import seed_for_test


@pytest.mark.slow
def test_no_decoder_and_no_request_meets_an_input_that_hurts_it() -> None:
    assert [str(finding) for finding in run(0.7, seed_for_test())] == []


def test_every_route_of_the_management_api_is_tried() -> None:
    tried = {request_line(make_request(random.Random(n))) for n in range(3_000)}
    for route in ROUTES:
        fixed = [(place, part) for place, part in enumerate(route.parts) if not part.startswith("{")]
        assert any(
            method == route.method
            and len(parts) == len(route.parts)
            and all(parts[place] == part for place, part in fixed)
            for method, parts in tried
        ), route.path


def request_line(request: bytes) -> tuple[str, tuple[str, ...]]:
    method, target, _ = request.split(b"\r\n", 1)[0].decode().split(" ")
    return method, tuple(target.partition("?")[0].strip("/").split("/"))


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"HTTP/1.1 500 Internal Server Error", b"{}"),
        (b"HTTP/1.1 400 Bad Request", b"no"),
        (b"HTTP/1.1 404 Not Found", b'{"error": "gone"}'),
        (b"", b""),
    ],
)
def test_a_bad_answer_of_the_management_api_is_found(head: bytes, body: bytes) -> None:
    assert wrong_with(b"GET /v1/executions HTTP/1.1", head, body)


def test_an_error_that_was_not_promised_is_found() -> None:
    def swallow(data: bytes) -> None:
        if b"\xff" in data:
            raise IndexError("a defect")
        raise ValueError("promised")

    target = Target("planted", lambda chance: damage_bytes(b"abc", chance), swallow, (ValueError,))
    _, findings = fuzz(target, 20, 1, finds_max=1)
    assert "IndexError: a defect" in findings[0].what
    assert findings[0].seed.startswith("planted:1:")


def test_what_waits_for_ever_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.run.hang_s_max", 0.05)
    target = Target("waits", lambda _: 0, lambda _: time.sleep(60), (ValueError,))
    _, findings = fuzz(target, 20, 1, finds_max=1)
    assert "Hung: not swallowed" in findings[0].what


def test_what_computes_for_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.run.input_s_max", 0.01)
    target = Target("slow", lambda _: 0, lambda _: print(sum(range(2_000_000))), ())
    _, findings = fuzz(target, 20, 1, finds_max=1)
    assert findings[0].what.startswith("took ")


def test_the_same_seed_makes_the_same_inputs() -> None:
    document: dict[str, Any] = {"a": [1, {"b": "c"}], "d": None}
    twice = [[repr(damage_json(document, random.Random(n))) for n in range(200)] for _ in range(2)]
    assert twice[0] == twice[1]
    assert len(set(twice[0])) > 50
    assert document == {"a": [1, {"b": "c"}], "d": None}
