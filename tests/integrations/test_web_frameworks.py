"""The endpoints of workflows: one suite, behind every web framework, each in a real server's process."""

import json
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.test_web_servers import serving
from tests.processes import eventually

httpx: Any = pytest.importorskip("httpx", reason="see conftest.py")

UVICORN = ["uvicorn", "--lifespan=auto"]
GUNICORN = ["gunicorn", "--threads=8", "--timeout=120"]
FRAMEWORKS = {
    "starlette": [*UVICORN, "tests.integrations.web_starlette:application"],
    "fastapi": [*UVICORN, "tests.integrations.web_fastapi:application"],
    "flask": [*GUNICORN, "tests.integrations.web_flask:application"],
    "django, wsgi": [*GUNICORN, "tests.integrations.django_shop.wsgi:application"],
    "django, asgi": [*UVICORN, "--lifespan=off", "tests.integrations.django_shop.asgi:application"],
}
ADA = {"x-user": "ada"}
CART = {"cart": {"item": "tea", "cents": 5}}


@pytest.fixture(scope="module", params=FRAMEWORKS)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Any]:
    folder = tmp_path_factory.mktemp("shop")
    command = FRAMEWORKS[request.param]
    more = {"SHOP_DIR": str(folder), "own_error": "out of tea"}
    with (
        serving(command, folder, f"sqlite:///{folder}/holdfast.db", **more) as url,
        httpx.Client(base_url=url, headers=ADA, timeout=60) as client,
    ):
        yield client


def started(client: Any, workflow: str = "checkout", body: Any = CART, **headers: str) -> Any:
    answer = client.post(f"/api/{workflow}", json=body, headers=headers)
    assert answer.status_code == 202, answer.text
    return answer


def ended(client: Any, answer: Any) -> Any:
    def look() -> Any:
        found = client.get(answer.headers["location"]).json()
        return found if found["status"] in ("completed", "failed", "cancelled") else None

    return eventually(look)


def approve(client: Any, answer: Any, by: str = "bob") -> Any:
    return client.post(answer.json()["links"]["settle"].replace("{name}", "approval"), json=by)


def test_a_start_is_answered_with_a_link_to_what_was_started(client: Any) -> None:
    answer = started(client)
    shown = client.get(answer.headers["location"]).json()
    assert shown["id"] == answer.json()["id"]
    assert shown["workflow"] == "checkout"
    assert shown["links"]["self"] == answer.headers["location"]
    assert answer.headers["location"].startswith("/api/executions/")


def test_an_approval_ends_it_and_the_result_is_shown(client: Any) -> None:
    answer = started(client, body=CART | {"gift": True})
    assert approve(client, answer).status_code == 204
    assert ended(client, answer)["result"] == {"item": "tea", "cents": 0, "approved_by": "bob"}


def test_what_it_waits_for_is_shown_with_the_shape_of_the_value(client: Any) -> None:
    answer = started(client)
    shown = eventually(lambda: client.get(answer.headers["location"]).json().get("waits"))
    assert [(each["name"], each["schema"]) for each in shown] == [("approval", {"type": "string"})]


def test_an_approval_is_given_once_and_another_one_is_refused(client: Any) -> None:
    answer = started(client)
    assert approve(client, answer).status_code == 204
    ended(client, answer)
    refused = approve(client, answer, "eve")
    assert (refused.status_code, refused.json()["code"]) == (409, "HF5204")


def test_the_same_key_starts_one_execution(client: Any) -> None:
    first, second = (started(client, **{"idempotency-key": "order-17"}) for _ in range(2))
    assert first.json()["id"] == second.json()["id"] == "checkout-order-17"
    other = client.post("/api/checkout", json=CART | {"gift": True}, headers={"idempotency-key": "order-17"})
    assert (other.status_code, other.json()["code"]) == (409, "HF5203")


def test_who_prefers_to_wait_is_answered_with_the_result(client: Any) -> None:
    answer = client.post("/api/add", json={"left": 1, "right": 2}, headers={"prefer": "wait=60"})
    assert (answer.status_code, answer.json()["result"]) == (200, 3)


def test_arguments_may_be_given_by_position(client: Any) -> None:
    assert ended(client, started(client, "add", [3, 4]))["result"] == 7


def test_a_failure_is_shown_with_its_text(client: Any) -> None:
    shown = ended(client, started(client, "fail", {"text": "out of tea"}))
    assert shown["status"] == "failed"
    assert "out of tea" in shown["error"]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"cart": {"item": "tea"}}, "cents"),
        ({"cart": {"item": "tea", "cents": "5"}}, "cents"),
        ({}, "cart"),
        (CART | {"colour": "red"}, "colour"),
        ("cart", "Expected a JSON object of arguments by name, or an array of them, got str"),
    ],
)
def test_wrong_arguments_are_refused_by_name_and_nothing_is_started(
    client: Any, body: Any, word: str
) -> None:
    refused = client.post("/api/checkout", json=body, headers={"idempotency-key": "never"})
    assert refused.status_code == 422
    assert word in refused.json()["error"]
    assert client.get("/api/executions/checkout-never").status_code == 404


def test_a_post_without_the_content_type_of_json_is_refused(client: Any) -> None:
    refused = client.post("/api/checkout", content=json.dumps(CART), headers={"content-type": "text/plain"})
    assert (refused.status_code, refused.json()["code"]) == (415, "HF7301")


@pytest.mark.parametrize(
    "path", ["checkout", "executions/{id}/promises/approval", "executions/{id}/messages"]
)
def test_a_body_that_is_no_json_is_refused_with_a_plain_sentence(client: Any, path: str) -> None:
    headers = {"content-type": "application/json"}
    own = path.replace("{id}", started(client).json()["id"])
    refused = client.post(f"/api/{own}", content=b'{"cart":', headers=headers)
    assert (refused.status_code, refused.json()["error"]) == (422, "The body is not JSON")


def test_a_large_body_is_refused_by_its_size(client: Any) -> None:
    body = json.dumps({"cart": {"item": "x" * 2_000_000, "cents": 5}})
    headers = {"content-type": "application/json"}
    # On a connection of its own: a server may close one on which a body was left unread.
    refused = httpx.post(f"{client.base_url}api/checkout", content=body, headers=ADA | headers, timeout=60)
    assert refused.status_code == 413


def test_only_the_named_workflows_can_be_reached(client: Any) -> None:
    assert client.post("/api/secret", json={}).status_code in (404, 405, 422)
    answer = client.post("/own?id=hidden")
    assert answer.status_code == 202
    refused = client.get("/api/executions/hidden")
    assert (refused.status_code, refused.json()["code"]) == (404, "HF1401")
    assert client.post("/api/executions/hidden/cancel", json={}).status_code == 404


def test_the_execution_of_somebody_else_is_not_there(client: Any) -> None:
    answer = started(client)
    eve = {"x-user": "eve"}
    assert client.get(answer.headers["location"], headers=eve).status_code == 404
    links = answer.json()["links"]
    for link in ("settle", "tell", "cancel"):
        refused = client.post(links[link].replace("{name}", "approval"), json="x", headers=eve)
        assert refused.status_code == 404
    assert client.get(links["stream"].replace("{name}", "progress"), headers=eve).status_code == 404


def test_who_may_not_start_is_told_so(client: Any) -> None:
    refused = client.post("/api/checkout", json=CART, headers={"x-user": "banned"})
    assert (refused.status_code, refused.json()["code"]) == (403, "HF7303")


def test_messages_reach_it_each_key_once(client: Any) -> None:
    answer = started(client, "converse", {})
    link = answer.json()["links"]["tell"]
    for word, key in (("hello", "1"), ("hello", "1"), ("bye", "2")):
        assert client.post(link, json=word, headers={"idempotency-key": key}).status_code == 202
    client.post(link, json="stop")
    assert ended(client, answer)["result"] == ["hello", "bye"]


def test_it_can_be_cancelled(client: Any) -> None:
    answer = started(client)
    assert client.post(answer.json()["links"]["cancel"], json={}).status_code == 202
    assert ended(client, answer)["status"] == "cancelled"


def test_an_id_with_slashes_is_found(client: Any) -> None:
    """It was chosen by the application's own code."""
    assert client.post("/own?id=a/b").json()["links"]["self"] == "/api/executions/a%2Fb"
    assert client.get("/api/executions/a%2Fb").json()["code"] == "HF1401"


def test_an_error_in_an_endpoint_of_ones_own_is_an_answer_with_a_code(client: Any, request: Any) -> None:
    if "django" in str(request.node.callspec.id):
        pytest.skip("Django has no handlers for errors of others; its middleware is the project's own")
    client.post("/own?id=taken")
    started(client, "add", [1, 1], **{"idempotency-key": "taken"})
    refused = client.post("/own?id=add-taken")
    assert (refused.status_code, refused.json()["code"]) == (409, "HF5203")


# --- streams ---------------------------------------------------------------------------------------------


def events(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    event: dict[str, str] = {}
    for line in lines:
        if not line and event:
            yield event
            event = {}
        name, colon, value = line.partition(": ")
        if colon and name:
            event[name] = value


def test_a_stream_gives_everything_in_order_and_then_the_result(client: Any) -> None:
    answer = started(client)
    link = answer.json()["links"]["stream"].replace("{name}", "progress")
    with client.stream("GET", link) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        found = events(response.iter_lines())
        first = [next(found) for _ in range(3)]
        assert [json.loads(each["data"]) for each in first] == ["looking", "adding", "done"]
        assert approve(client, answer).status_code == 204  # while it is read: nothing is held back
        assert json.loads(next(found)["data"]) == "approved by bob"
        end = next(found)
        assert end["event"] == "end"
        assert json.loads(end["data"])["result"]["approved_by"] == "bob"


def test_a_reader_goes_on_after_the_last_number_that_it_has(client: Any) -> None:
    answer = started(client)
    approve(client, answer)
    ended(client, answer)
    link = answer.json()["links"]["stream"].replace("{name}", "progress")
    with client.stream("GET", link, headers={"last-event-id": "2"}) as response:
        found = [*events(response.iter_lines())]
    assert [each.get("id") for each in found] == ["3", "4", None]
    with client.stream("GET", link, headers={"last-event-id": "two"}) as response:
        assert response.status_code == 422


def test_readers_that_leave_do_not_keep_the_server_from_serving(client: Any) -> None:
    answer = started(client)
    link = answer.json()["links"]["stream"].replace("{name}", "progress")
    for _ in range(20):  # more than there are threads
        with client.stream("GET", link) as response:
            next(events(response.iter_lines()))
        if response.headers.get("server", "").startswith("gunicorn"):
            break  # a thread is held until the next keep-alive: that is said in the document
    assert client.get(answer.headers["location"]).status_code == 200


# --- crashes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fastapi", "flask"])
def test_what_was_accepted_goes_on_after_the_server_is_killed(name: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holdfast.db"
    with (
        serving(FRAMEWORKS[name], tmp_path, url, expects_kill="1") as first,
        httpx.Client(base_url=first, headers=ADA, timeout=60) as client,
    ):
        answers = [started(client, **{"idempotency-key": f"k{number}"}) for number in range(20)]
        kill_group(tmp_path)
    with (
        serving(FRAMEWORKS[name], tmp_path, url) as second,
        httpx.Client(base_url=second, headers=ADA, timeout=60) as client,
    ):
        for answer in answers:
            assert approve(client, answer).status_code == 204
        for answer in answers:
            assert ended(client, answer)["result"]["approved_by"] == "bob"


def kill_group(folder: Path) -> None:
    os.killpg(int((folder / "server.pid").read_text()), signal.SIGKILL)
