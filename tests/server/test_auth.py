"""Tokens, and that a prefix holds for everything a request names."""

import base64
import hashlib
import hmac
import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from msgspec.structs import replace

from holdfast.protocol.requests import ScheduleCreate
from holdfast.protocol.wire import RefusedRequest
from holdfast.server import Settings, running
from holdfast.server.access import restrict
from holdfast.server.auth import Authenticator
from holdfast.server.errors import Forbidden, SettingsError, Unauthenticated
from holdfast.server.grants import ADMIN, Grant
from tests.requests import ask
from tests.server.http import create, envelope, get, post, streaming

guarded = Settings(port=0, store="memory:", debug=True, tokens=("admin-secret", "a a-secret-1"))


def unnamed(grant: Grant) -> Grant:
    """What it allows, whoever has it."""
    return replace(grant, name="")


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize("name", ["a", "a:1", "a.b", "a-b", "a/b"])
def test_a_prefix_covers_what_continues_it_after_a_delimiter(name: str) -> None:
    assert Grant("a").covers(name)


@pytest.mark.parametrize("name", ["admin", "b", "", "A", "ab:a", "a\u200b", "a0"])
def test_a_prefix_covers_nothing_that_merely_starts_alike(name: str) -> None:
    assert not Grant("a").covers(name)


async def test_a_token_is_asked_for_and_may_come_either_way() -> None:
    request = envelope("promise.get", {"id": "x"})
    async with running(guarded) as server:
        answer = await post(server.url, request)
        assert (answer.status, answer.json["head"]["corrId"]) == (401, "c1")
        assert (await post(server.url, request, bearer("wrong-secret"))).status == 401
        for wrong in (envelope("promise.get", {"id": ""}), envelope("promise.guess", {})):
            assert (await post(server.url, wrong)).status == 401, "a stranger is told nothing of the protocol"
            assert (await post(server.url, wrong, bearer("admin-secret"))).status == 400
        assert (await post(server.url, request, bearer("admin-secret"))).status == 404
        in_head = envelope("promise.get", {"id": "x"}, auth="admin-secret")
        assert (await post(server.url, in_head)).status == 404
        assert (await post(server.url, in_head, bearer("admin-secret"))).status == 404
        assert (await post(server.url, in_head, bearer("a-secret-1"))).status == 401  # they differ
        assert (await get(server.url, "/poll/g/w")).status == 401
        assert (await get(server.url, "/metrics")).status == 401
        assert (await get(server.url, "/metrics", bearer("a-secret-1"))).status == 403
        assert (await get(server.url, "/metrics", bearer("admin-secret"))).status == 200
        assert (await get(server.url, "/health")).status == 200


def _act(kind: str, **data: Any) -> dict[str, Any]:
    return {"kind": kind, "head": {}, "data": data}


def _fence(inner: dict[str, Any], kind: str = "promise.create") -> tuple[str, dict[str, Any]]:
    return "task.fence", {"id": "a:t", "version": 1, "action": {"kind": kind, "head": {}, "data": inner}}


def _suspend(awaited: str) -> tuple[str, dict[str, Any]]:
    actions = [
        {"kind": "promise.register_callback", "head": {}, "data": {"awaited": each, "awaiter": "a:t"}}
        for each in ("a:fine", awaited)
    ]
    return "task.suspend", {"id": "a:t", "version": 1, "actions": actions}


def _schedule(**changes: Any) -> tuple[str, dict[str, Any]]:
    fine = {"id": "a:s", "cron": "* * * * *", "promiseId": "{{.id}}-{{.timestamp}}", "promiseTimeout": 1}
    return "schedule.create", fine | changes


BRANCH_OF_B = {"resonate:branch": "b"}


def _subscription(name: str, key: str, target: str) -> dict[str, Any]:
    made = {"name": name, "id": key, "workflow": "w", "promiseTimeout": 1}
    return {**made, "promiseTags": {"resonate:target": target}}


FOREIGN: list[tuple[str, dict[str, Any]]] = [
    ("promise.get", {"id": "b"}),
    ("promise.get", {"id": "admin"}),
    ("promise.create", create("b")),
    ("promise.create", create("a:1", "poll://any@b")),
    ("promise.create", create("a:1", "http://example.org/hook")),
    ("promise.create", create("a:1", tags={"resonate:branch": "b"})),
    ("promise.create", create("a:1", tags={"resonate:origin": "b"})),
    ("promise.create", create("a:1", tags={"resonate:parent": "b"})),
    ("promise.create", create("a:1", tags={"resonate:invoke": "poll://any@b"})),
    ("promise.settle", {"id": "b", "state": "resolved"}),
    ("promise.register_callback", {"awaited": "b", "awaiter": "a:t"}),
    ("promise.register_callback", {"awaited": "a:1", "awaiter": "b"}),
    ("promise.register", {"awaited": "a:1", "awaiter": "b"}),
    ("promise.register_listener", {"awaited": "b", "address": "poll://uni@a/w"}),
    ("promise.register_listener", {"awaited": "a:1", "address": "poll://uni@b/w"}),
    ("promise.subscribe", {"awaited": "a:1", "address": "https://example.org"}),
    ("task.get", {"id": "b"}),
    ("task.acquire", {"id": "b", "version": 0, "pid": "p", "ttl": 1}),
    ("task.release", {"id": "b", "version": 0}),
    ("task.start", {"id": "b", "version": 0}),
    ("task.fail", {"id": "b", "version": 0, "code": "X"}),
    ("task.cancel", {"id": "b"}),
    ("task.snooze", {"id": "b", "version": 1, "delay": 1}),
    ("task.reschedule", {"id": "b"}),
    ("task.restart", {"id": "b", "version": 1}),
    ("task.halt", {"id": "b"}),
    ("task.continue", {"id": "b"}),
    ("task.fulfill", {"id": "b", "version": 1, "action": _act("promise.settle", id="b", state="resolved")}),
    ("task.create", {"pid": "p", "ttl": 1, "action": _act("promise.create", **create("b", "poll://any@a"))}),
    ("task.create", {"pid": "p", "ttl": 1, "action": _act("promise.create", **create("a:1", "poll://any@b"))}),
    _fence(create("b")),
    _fence(create("a:1", "poll://any@b")),
    _fence({"id": "b:1", "state": "resolved"}, "promise.settle"),
    _suspend("b"),
    ("task.heartbeat", {"pid": "p", "tasks": [{"id": "a:t", "version": 1}, {"id": "b", "version": 1}]}),
    ("task.heartbeat", {"pid": "p", "tasks": []}),
    ("task.claim", {"groups": ["a", "b"], "count": 1, "pid": "p", "ttl": 1}),
    ("schedule.get", {"id": "b"}),
    ("schedule.delete", {"id": "b"}),
    ("schedule.pause", {"id": "b"}),
    ("schedule.trigger", {"id": "b"}),
    ("schedule.backfill", {"id": "b", "since": 0, "until": 1}),
    ("schedule.update", {"id": "b"}),
    ("schedule.update", {"id": "a:s", "promiseId": "b-{{.timestamp}}"}),
    ("schedule.update", {"id": "a:s", "promiseTags": {"resonate:target": "poll://any@b"}}),
    (
        "schedule.update",
        {
            "id": "a:s",
            "promiseTags": {
                "resonate:target": "poll://any@queue.a",
                "holdfast:job": '{"unique":"k","onUnique":"replace"}',
            },
        },
    ),
    _schedule(id="b"),
    _schedule(promiseId="b-{{.timestamp}}"),
    _schedule(promiseId="{{.timestamp}}"),
    _schedule(promiseId="a{{.timestamp}}"),
    _schedule(promiseTags={"resonate:target": "poll://any@b"}),
    _schedule(promiseTags={"resonate:branch": "b"}),
    ("promise.create", create("a:1", "poll://any@queue.b", tags={"holdfast:job": "{}"})),
    ("promise.create", create("b", "poll://any@queue.a", tags={"holdfast:job": "{}"})),
    ("task.claim", {"groups": ["queue.a", "queue.b"], "count": 1, "pid": "p", "ttl": 1}),
    _schedule(
        promiseTags={
            "resonate:target": "poll://any@queue.a",
            "holdfast:job": json.dumps({"unique": "k", "onUnique": "replace"}),
        }
    ),
    ("stream.append", {"id": "b", "stream": "in"}),
    ("stream.append", {"id": "a:t", "stream": "in", "answer": {"timeoutAt": 1, "id": "b:1"}}),
    ("stream.append", {"id": "a:t", "stream": "in", "answer": {"timeoutAt": 1, "tags": BRANCH_OF_B}}),
    ("stream.next", {"id": "b", "stream": "in", "number": 1}),
    ("stream.read", {"id": "b", "stream": "in"}),
    ("stream.list", {"id": "b"}),
    _fence({"id": "b", "stream": "in"}, "stream.append"),
    _fence({"id": "a:t", "stream": "in", "answer": {"timeoutAt": 1, "id": "b:1"}}, "stream.append"),
    _fence({"id": "b", "stream": "in", "number": 1}, "stream.next"),
    ("execution.start", {"action": {"kind": "promise.create", "data": create("b", "poll://any@a")}}),
    ("execution.start", {"action": {"kind": "promise.create", "data": create("a:1", "poll://any@b")}}),
    ("execution.cancel", {"id": "b"}),
    ("execution.retry", {"id": "b"}),
    ("execution.fork", {"id": "b", "newId": "a:f", "before": "x"}),
    ("execution.fork", {"id": "a:1", "newId": "b:f", "before": "x"}),
    _fence({"id": "b"}, "execution.cancel"),
    _fence({"id": "b"}, "execution.retry"),
    _fence({"id": "b"}, "task.halt"),
    _fence({"id": "b"}, "task.continue"),
    ("event.send", {"name": "b"}),
    ("event.search", {"name": "b"}),
    ("event.unsubscribe", {"name": "b", "id": "a"}),
    ("event.subscribe", _subscription("b", "a-s", "poll://any@a")),
    ("event.subscribe", _subscription("a", "s", "poll://any@a")),
    ("event.subscribe", _subscription("a", "a-s", "poll://any@b")),
    _fence({"name": "b"}, "event.send"),
    _fence({"name": "b", "id": "a:1", "timeoutAt": 1}, "event.await"),
    _fence({"name": "a", "id": "b:1", "timeoutAt": 1}, "event.await"),
    ("lock.get", {"name": "b"}),
    ("lock.search", {"prefix": "b"}),
    ("lock.release", {"name": "b", "id": "a", "reason": "x"}),
    _fence({"id": "a:1", "name": "b", "timeoutAt": 1}, "lock.acquire"),
    _fence({"id": "b:1", "name": "a", "timeoutAt": 1}, "lock.acquire"),
    _fence({"id": "a:1", "name": "a", "timeoutAt": 1, "tags": BRANCH_OF_B}, "lock.acquire"),
    _fence({"id": "a:1", "name": "b"}, "lock.release"),
    ("queue.get", {"name": "b"}),
    ("queue.set", {"name": "admin"}),
    ("queue.pause", {"name": "b", "paused": True}),
    ("queue.search", {"prefix": "b"}),
    ("promise.search", {"prefix": "b"}),
    ("execution.get", {"id": "b"}),
    ("execution.search", {"prefix": "b"}),
    ("execution.count", {"prefix": "b"}),
    ("debug.reset", {}),
    ("debug.snap", {}),
]  # fmt: skip


async def test_no_request_reaches_past_its_prefix() -> None:
    async with running(guarded) as server:
        before = await post(server.url, envelope("debug.snap", {}), bearer("admin-secret"))
        for kind, data in FOREIGN:
            answer = await post(server.url, envelope(kind, data), bearer("a-secret-1"))
            assert answer.status == 403, (kind, data, answer.body)
            assert "[HF3102]" in answer.json["data"]
        after = await post(server.url, envelope("debug.snap", {}), bearer("admin-secret"))
        assert after.json["data"] == before.json["data"]


async def test_a_prefix_holds_for_what_a_request_finds_without_naming_it() -> None:
    job = {"holdfast:job": '{"unique": "k", "onUnique": "replace"}'}
    async with running(guarded) as server:

        async def ask(kind: str, data: dict[str, Any], token: str) -> Any:
            return (await post(server.url, envelope(kind, data), bearer(token))).json

        for foreign in (create("b:1", "poll://any@a"), create("b:2", "poll://any@queue.a", tags=job)):
            await ask("promise.create", foreign, "admin-secret")
        claim = {"groups": ["a", "queue.a"], "count": 5, "pid": "p", "ttl": 1_000}
        assert (await ask("task.claim", claim, "a-secret-1"))["data"]["tasks"] == []
        taken = await ask("promise.create", create("a:2", "poll://any@queue.a", tags=job), "a-secret-1")
        assert (taken["head"]["status"], "b:2" in taken["data"]) == (409, False)
        assert len((await ask("task.claim", claim, "admin-secret"))["data"]["tasks"]) == 2


async def test_every_kind_of_request_is_in_the_list_of_foreign_ones() -> None:
    from holdfast.protocol.requests import KINDS

    tried = {kind for kind, _ in FOREIGN}
    exempt = {"task.search", "schedule.search", "debug.start", "debug.stop", "debug.tick"}
    assert KINDS.keys() - tried == exempt


async def test_what_lies_under_the_prefix_is_allowed() -> None:
    async with running(guarded) as server:
        fine = [
            ("promise.create", create("a:1", "poll://any@a-workers", tags={"resonate:branch": "a:1"})),
            ("task.acquire", {"id": "a:1", "version": 0, "pid": "p", "ttl": 60_000}),
            ("task.heartbeat", {"pid": "p", "tasks": [{"id": "a:1", "version": 1}]}),
            ("stream.append", {"id": "a:1", "stream": "in", "key": "k", "answer": {"timeoutAt": 2**52}}),
            ("stream.next", {"id": "a:1", "stream": "in", "number": 1}),
            ("stream.list", {"id": "a:1"}),
            ("promise.create", create("a.2")),
            ("promise.register_listener", {"awaited": "a.2", "address": "poll://uni@a/w"}),
            ("task.claim", {"groups": ["a", "a-workers"], "count": 1, "pid": "p", "ttl": 1}),
            ("promise.create", create("a:3", "poll://any@queue.a-mail", tags={"holdfast:job": "{}"})),
            ("task.claim", {"groups": ["queue.a-mail"], "count": 1, "pid": "p", "ttl": 1_000, "start": True}),
            ("task.fail", {"id": "a:3", "version": 1, "code": "X"}),
            ("queue.set", {"name": "a-mail", "concurrency": 1}),
            ("queue.pause", {"name": "a-mail", "paused": True}),
            ("queue.get", {"name": "a-mail"}),
            _schedule(promiseTags={"resonate:target": "poll://any@a"}),
            _schedule(id="a:s2", promiseId="a-{{.timestamp}}"),
            ("schedule.update", {"id": "a:s2", "promiseId": "a:{{.timestamp}}"}),
            ("schedule.trigger", {"id": "a:s2"}),
        ]
        for kind, data in fine:
            answer = await post(server.url, envelope(kind, data), bearer("a-secret-1"))
            assert answer.status == 200, (kind, answer.body)


async def test_a_search_finds_what_is_covered_and_names_nothing_else() -> None:
    ids = ["a", "a!x", "a-1", "a.1", "a/1", "a0", "a1", "a5", "a9", "a:1", "a:2", "aa", "admin", "b"]
    async with running(guarded) as server:
        for promise_id in ids:
            await post(server.url, envelope("promise.create", create(promise_id)), bearer("admin-secret"))
        for limit in (1, 2, 3, 100):
            found: list[str] = []
            cursor: str | None = None
            for _ in range(20):
                asked = {"limit": limit} | ({"cursor": cursor} if cursor else {})
                answer = await post(server.url, envelope("promise.search", asked), bearer("a-secret-1"))
                data = answer.json["data"]
                found += [promise["id"] for promise in data["promises"]]
                cursor = data.get("cursor")
                if cursor is None:
                    break
                assert cursor not in ids or Grant("a").covers(cursor)
            assert found == ["a", "a-1", "a.1", "a/1", "a:1", "a:2"], limit


async def test_a_cursor_does_not_tell_whether_there_are_foreign_ids() -> None:
    """A token for `acme` read an id of `acme2` character by character, from whether there was a cursor."""
    settings = Settings(port=0, store="memory:", tokens=("admin-secret", "acme acme-secret"))
    secret = "acme2:order-7f3a91"
    guesses = [secret[:length] + mark for length in range(5, len(secret) + 1) for mark in ("", "0", "7", "z")]
    queries: list[dict[str, Any]] = [{"limit": limit} for limit in (1, 2, 3, 1_000)]
    queries += [{"limit": 1, "prefix": guess} for guess in guesses]
    queries += [{"limit": 1, "cursor": guess} for guess in guesses]
    queries += [{"limit": 1, "prefix": guess, "tags": {"no": "such"}} for guess in guesses]

    async with running(settings) as server:

        async def answers() -> list[Any]:
            bodies = [
                envelope(kind, {"tags": {}} | query if kind == "schedule.search" else query)
                for kind in (
                    "promise.search",
                    "task.search",
                    "schedule.search",
                    "queue.search",
                    "execution.search",
                )
                for query in queries
                if kind != "queue.search" or "tags" not in query
            ]
            found: list[Any] = []
            for start in range(0, len(bodies), 4):
                answer = await post(server.url, bodies[start : start + 4], bearer("acme-secret"))
                found += [(each["head"]["status"], each["data"]) for each in answer.json]
            return found

        async def make(name: str) -> None:
            data = create(name, "poll://any@g")
            for kind, more in (
                ("promise.create", data),
                ("schedule.create", _schedule(id=name)[1]),
                ("queue.set", {"name": name}),
            ):
                made = await post(server.url, envelope(kind, more), bearer("admin-secret"))
                assert made.status == 200, made.body

        for name in ("acme", "acme-1", "acme:1", "acme:2"):
            await make(name)
        before = await answers()
        for name in (secret, "acme0", "acme1", "acmee", "acme!", "acme;", "acm", "acme\U0010ffff"):
            await make(name)
        assert await answers() == before


@pytest.mark.parametrize(
    ("prefix", "template"),
    [
        ("tenant0", "tenant{{.timestamp}}"),
        ("tenant1", "tenant{{.timestamp}}"),
        ("tenant17", "tenant1{{.timestamp}}"),
        ("tenant", "tenant{{.timestamp}}"),
        ("tenant", "{{.timestamp}}"),
        ("t:0", "{{.timestamp}}"),
        ("tenant0", "tenant{{.timestamp}}{{.id}}"),
    ],
)
def test_a_template_is_covered_at_every_instant_or_not_at_all(prefix: str, template: str) -> None:
    request = ask(ScheduleCreate(f"{prefix}:s", "* * * * *", template, 1))
    refused = restrict(request, Grant(prefix))
    assert isinstance(refused, RefusedRequest)
    assert refused.refusal.status == 403


@pytest.mark.parametrize(
    "template",
    ["t-{{.timestamp}}", "t:x{{.timestamp}}", "{{.id}}-{{.timestamp}}", "{{.id}}", "t", "t/{{.timestamp}}/t"],
)
def test_a_template_that_has_passed_its_delimiter_is_covered(template: str) -> None:
    request = ask(ScheduleCreate("t:s", "* * * * *", template, 1))
    assert not isinstance(restrict(request, Grant("t")), RefusedRequest)


async def test_a_prefix_named_queue_hears_of_no_queue_but_its_own() -> None:
    settings = Settings(port=0, store="memory:", tokens=("admin-secret", "queue queue-secret"))
    async with running(settings) as server:
        for group in ("queue.mail", "queue.payments"):
            assert (await get(server.url, f"/poll/{group}/w", bearer("queue-secret"))).status == 403
            claim = {"groups": [group], "count": 1, "pid": "p", "ttl": 1_000}
            assert (
                await post(server.url, envelope("task.claim", claim), bearer("queue-secret"))
            ).status == 403
            made = create("queue:1", f"poll://any@{group}", tags={"holdfast:job": "{}"})
            assert (
                await post(server.url, envelope("promise.create", made), bearer("queue-secret"))
            ).status == 403
        for group in ("queue", "queue-workers", "queue.queue", "queue.queue-mail"):
            async with streaming(server.url, group, "w", "queue-secret") as stream:
                assert stream.status == 200


async def test_a_branch_that_looks_like_a_hash_is_given_no_foreign_preload(tmp_path: Path) -> None:
    settings = Settings(
        port=0, store=f"sqlite:///{tmp_path}/store.db", tokens=("admin-secret", "sha256 sha-secret")
    )
    long = "b:" + "x" * 2_000
    hashed = "sha256:" + hashlib.sha256(long.encode()).hexdigest()
    async with running(settings) as server:
        foreign = create("b:secret", tags={"resonate:branch": long})
        assert (
            await post(server.url, envelope("promise.create", foreign), bearer("admin-secret"))
        ).status == 200
        own = [
            create("sha256:1", "poll://any@sha256", tags={"resonate:branch": hashed}),
            create("sha256:2", tags={"resonate:branch": hashed}),
        ]
        for data in own:
            assert (
                await post(server.url, envelope("promise.create", data), bearer("sha-secret"))
            ).status == 200
        acquire = {"id": "sha256:1", "version": 0, "pid": "p", "ttl": 1_000}
        answer = await post(server.url, envelope("task.acquire", acquire), bearer("sha-secret"))
        assert [each["id"] for each in answer.json["data"]["preload"]] == ["sha256:2"]
        assert "secret" not in json.dumps(answer.json)


async def test_a_search_for_queues_finds_what_is_covered() -> None:
    async with running(guarded) as server:
        for name in ("a", "a-mail", "admin", "b"):
            await post(server.url, envelope("queue.set", {"name": name}), bearer("admin-secret"))
        answer = await post(server.url, envelope("queue.search", {}), bearer("a-secret-1"))
    assert [queue["name"] for queue in answer.json["data"]["queues"]] == ["a", "a-mail"]


async def test_a_stream_needs_a_group_under_the_prefix() -> None:
    async with running(guarded) as server:
        assert (await get(server.url, "/poll/b/w", bearer("a-secret-1"))).status == 403
        assert (await get(server.url, "/poll/admin/w", bearer("a-secret-1"))).status == 403
        assert (await get(server.url, "/poll/queue.b/w", bearer("a-secret-1"))).status == 403
        for group in ("a-workers", "queue.a-mail"):
            async with streaming(server.url, group, "w", "a-secret-1") as stream:
                assert stream.status == 200


async def test_in_an_array_each_envelope_stands_for_itself() -> None:
    async with running(guarded) as server:
        batch = [envelope("promise.create", create(promise_id)) for promise_id in ("a:1", "b:1", "a:2")]
        answer = await post(server.url, batch, bearer("a-secret-1"))
    assert [reply["head"]["status"] for reply in answer.json] == [200, 403, 200]


# --- JWT ------------------------------------------------------------------------------------------------

KEYS: dict[str, Any] = {
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
    "RS256": rsa.generate_private_key(65_537, 2_048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
}
KEYS["PS256"] = KEYS["RS256"]


def public_pem(key: Any) -> bytes:
    pem: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return pem


def checker(folder: Path, algorithm: str, **settings: Any) -> Authenticator:
    (folder / "key.pem").write_bytes(public_pem(KEYS[algorithm]))
    return Authenticator(Settings(jwt_key=str(folder / "key.pem"), **settings))


def claims(**changes: Any) -> dict[str, Any]:
    return {"role": "admin", "exp": int(time.time()) + 60} | changes


@pytest.mark.parametrize("algorithm", ["EdDSA", "RS256", "PS256", "ES256", "ES384"])
def test_a_jwt_of_each_kind_of_key_is_accepted(tmp_path: Path, algorithm: str) -> None:
    check = checker(tmp_path, algorithm)
    assert unnamed(check.grant(jwt.encode(claims(), KEYS[algorithm], algorithm))) == ADMIN
    limited = jwt.encode(claims(role="user", prefix="a"), KEYS[algorithm], algorithm)
    assert unnamed(check.grant(limited)) == Grant("a")
    assert unnamed(check.grant(limited)) == Grant("a")  # from memory


def _unsigned(body: dict[str, Any]) -> str:
    parts = [json.dumps({"alg": "none", "typ": "JWT"}), json.dumps(body)]
    return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts) + "."


def _signed_with_public_key(body: dict[str, Any], pem: bytes) -> str:
    parts = [json.dumps({"alg": "HS256", "typ": "JWT"}), json.dumps(body)]
    text = ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
    mac = hmac.new(pem, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def test_forged_expired_and_misdirected_tokens_are_refused(tmp_path: Path) -> None:
    key = KEYS["RS256"]
    check = checker(tmp_path, "RS256", jwt_issuer="us", jwt_audience="holdfast", jwt_leeway_s=30)
    good = claims(iss="us", aud="holdfast")
    assert unnamed(check.grant(jwt.encode(good, key, "RS256"))) == ADMIN
    assert unnamed(check.grant(jwt.encode(good | {"aud": ["x", "holdfast"]}, key, "RS256"))) == ADMIN
    now = int(time.time())
    without_exp = {name: value for name, value in good.items() if name != "exp"}
    bad = {
        "alg none": _unsigned(good),
        "HS256 with the public key": _signed_with_public_key(good, public_pem(key)),
        "another key": jwt.encode(good, rsa.generate_private_key(65_537, 2_048), "RS256"),
        "another kind of key": jwt.encode(good, KEYS["ES256"], "ES256"),
        "expired": jwt.encode(good | {"exp": now - 31}, key, "RS256"),
        "no exp": jwt.encode(without_exp, key, "RS256"),
        "not yet": jwt.encode(good | {"nbf": now + 60}, key, "RS256"),
        "issuer": jwt.encode(good | {"iss": "them"}, key, "RS256"),
        "audience": jwt.encode(good | {"aud": ["x"]}, key, "RS256"),
        "no issuer": jwt.encode(claims(aud="holdfast"), key, "RS256"),
        "kid as a path": jwt.encode(claims(), key, "RS256", headers={"kid": "../../etc/passwd"}),
        "garbage": "a.b.c",
        "huge": "x" * 100_000,
        "empty": "",
        "tampered": jwt.encode(good, key, "RS256")[:-4] + "AAAA",
    }
    for name, token in bad.items():
        with pytest.raises(Unauthenticated):
            raise AssertionError(f"{name}: {check.grant(token)}")
    assert (
        unnamed(check.grant(jwt.encode(good | {"exp": now - 5}, key, "RS256"))) == ADMIN
    )  # within the leeway


@pytest.mark.parametrize(
    "body", [{"role": "user"}, {"role": None, "prefix": ""}, {"role": ["admin"], "prefix": 1}]
)
def test_a_token_without_a_role_or_a_prefix_grants_nothing(tmp_path: Path, body: dict[str, Any]) -> None:
    check = checker(tmp_path, "EdDSA")
    with pytest.raises(Forbidden):
        check.grant(jwt.encode(claims(**body), KEYS["EdDSA"], "EdDSA"))


@pytest.mark.parametrize("exp", ["1" + "0" * 400, "1e400", "-1e400", "NaN", "[]", "{}", '"x"', "null"])
@pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
def test_a_signed_token_may_hold_what_is_no_instant_without_harm(tmp_path: Path, name: str, exp: str) -> None:
    check = checker(tmp_path, "EdDSA")
    body = json.dumps(claims() | {name: "@"}).replace('"@"', exp).encode()
    token = jwt.api_jws.encode(body, KEYS["EdDSA"], "EdDSA")
    with suppress(Unauthenticated):
        assert (name, unnamed(check.grant(token))) != ("exp", ADMIN)


def test_a_token_of_deep_json_is_refused(tmp_path: Path) -> None:
    deep = base64.urlsafe_b64encode(b'{"alg":' + b"[" * 3_000).rstrip(b"=").decode()
    with pytest.raises(Unauthenticated):
        checker(tmp_path, "EdDSA").grant(f"{deep}.e30.e30")


def test_a_remembered_token_is_forgotten_when_it_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = checker(tmp_path, "EdDSA", jwt_leeway_s=0)
    token = jwt.encode(claims(), KEYS["EdDSA"], "EdDSA")
    assert unnamed(check.grant(token)) == ADMIN
    later = time.time() + 120
    monkeypatch.setattr(time, "time", lambda: later)
    monkeypatch.setattr("holdfast.server.auth._JwtCheck.check", _refuse)
    with pytest.raises(Unauthenticated):
        check.grant(token)


def _refuse(self: object, token: str) -> None:
    raise Unauthenticated("expired")


def test_weak_and_private_keys_are_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    for content in (public_pem(rsa.generate_private_key(65_537, 1_024)), b"nothing"):
        path.write_bytes(content)
        with pytest.raises(SettingsError):
            Authenticator(Settings(jwt_key=str(path)))
    with pytest.raises(SettingsError):
        Authenticator(Settings(jwt_key=str(tmp_path / "absent.pem")))
    with pytest.raises(SettingsError):
        Authenticator(Settings(tokens=("short",)))


def test_tokens_can_be_kept_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("# who may come in\nadmin-secret\n\nteam team-secret\n")
    check = Authenticator(Settings(token_file=str(path)))
    assert unnamed(check.grant("admin-secret")) == ADMIN
    assert unnamed(check.grant("team-secret")) == Grant("team")


def test_a_token_that_is_no_text_is_not_known(tmp_path: Path) -> None:
    keys = ed25519.Ed25519PrivateKey.generate().public_key()
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    (tmp_path / "key.pem").write_bytes(keys.public_bytes(encoding, form))
    authenticator = Authenticator(Settings(jwt_key=str(tmp_path / "key.pem")))
    with pytest.raises(Unauthenticated):
        authenticator.grant("\ud800")


@pytest.mark.parametrize("text", ["", "\n  \n", "# admin-secret\n"])
def test_a_token_file_without_a_token_lets_nobody_in(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokens").write_text(text)
    with pytest.raises(SettingsError, match="HF3201"):
        Authenticator(Settings(token_file=str(tmp_path / "tokens")))
