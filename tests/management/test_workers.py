"""Workers tell what they are and what they know to run; one of them can be drained."""

from __future__ import annotations

import asyncio
import enum
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import holdfast as hf
from holdfast.server.serving import running
from holdfast.server.settings import Settings
from tests.management.client import Api, escaped
from tests.server.http import call, create, streaming


class Speed(enum.Enum):
    SLOW = "slow"
    FAST = "fast"


@dataclass
class Parcel:
    weight: float
    fragile: bool = False


class Pool:
    pass


def shop(url: str, group: str = "default") -> hf.App:
    app = hf.App(url, group=group)
    app.provide(Pool, Pool())

    @app.workflow(version=2)
    async def ship(
        parcel: Parcel, pool: Pool, speed: Speed = Speed.SLOW, *, note: str | None = None
    ) -> Parcel:
        """Send a parcel.

        It arrives."""
        return parcel

    @app.workflow
    async def odd(anything: Any, *many: int, how: Literal["a", "b"], **rest: str) -> None: ...

    @app.task(queue="mail")
    def send_mail(address: str, tries: Annotated[int, "how often"] = 3) -> bool:
        """Send a letter."""
        return bool(address)

    return app


async def until(api: Api, path: str, wanted: Callable[[Any], Any]) -> Any:
    found: Any = None
    for _ in range(3_000):
        found = await api.get(path)
        if wanted(found):
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(found)


def has_declared(found: Any) -> Any:
    return bool(found["workers"]) and found["workers"][0].get("declarations")


def by_name(found: Any) -> dict[str, Any]:
    return {each["name"]: each for each in found["declarations"]}


async def test_what_workers_know_to_run_is_listed_with_its_signature(api: Api) -> None:
    async with shop(api.url):
        found = by_name(await until(api, "declarations", lambda found: len(found["declarations"]) == 3))
    ship = found["ship"]
    assert (ship["kind"], ship["version"], ship["group"], ship["about"]) == (
        "workflow",
        2,
        "default",
        "Send a parcel.",
    )
    assert ship["positional"] == ["parcel", "speed"]
    properties, definitions = ship["parameters"]["properties"], ship["parameters"]["$defs"]
    assert ship["parameters"]["required"] == ["parcel"]
    assert set(properties) == {"parcel", "speed", "note"}  # what the app provides is no argument
    assert definitions["Parcel"]["properties"]["weight"] == {"type": "number"}
    assert definitions["Speed"]["enum"] == ["fast", "slow"]
    assert properties["speed"]["default"] == "slow"
    assert ship["returns"]["$ref"] == "#/$defs/Parcel"
    mail = found["send_mail"]
    assert (mail["kind"], mail["queue"]) == ("task", "mail")
    assert mail["parameters"]["properties"]["tries"] == {"type": "integer", "default": 3}
    odd = found["odd"]
    assert odd["parameters"]["properties"]["anything"] == {}
    assert odd["parameters"]["properties"]["many"] == {"type": "array", "items": {"type": "integer"}}
    assert odd["parameters"]["additionalProperties"] is True
    assert odd["parameters"]["properties"]["how"] == {"enum": ["a", "b"]}


async def test_an_entity_is_declared_as_one(api: Api) -> None:
    """It was listed among the workflows, and the console offered to start it as one."""
    app = shop(api.url)

    @app.entity
    class Account:
        total: int = 0

        async def deposit(self, amount: int) -> int:
            self.total += amount
            return self.total

    async with app:
        found = by_name(await until(api, "declarations", lambda found: len(found["declarations"]) == 4))
    assert (found["Account"]["kind"], found["ship"]["kind"]) == ("entity", "workflow")


async def test_declarations_stay_while_no_worker_runs(api: Api) -> None:
    async with shop(api.url):
        found = by_name(await until(api, "declarations", lambda found: len(found["declarations"]) == 3))
        assert found["ship"]["workers"] == 1
    found = by_name(await api.get("declarations", kind="workflow"))
    assert set(found) == {"ship", "odd"}
    assert found["ship"]["workers"] == 0


async def test_declarations_are_paged(api: Api) -> None:
    async with shop(api.url):
        await until(api, "declarations", lambda found: len(found["declarations"]) == 3)
    names: list[str] = []
    cursor = ""
    while True:
        page = await api.get("declarations", limit=2, **({"cursor": cursor} if cursor else {}))
        names += [each["name"] for each in page["declarations"]]
        if "cursor" not in page:
            break
        cursor = page["cursor"]
    assert sorted(names) == ["odd", "send_mail", "ship"]


async def test_a_worker_tells_what_it_is_and_that_it_ends(api: Api) -> None:
    async with shop(api.url, group="packers"):
        [worker] = (await until(api, "workers", has_declared))["workers"]
        assert (worker["group"], worker["state"], worker["connected"]) == ("packers", "running", True)
        assert worker["queues"] == ["mail"]
        assert worker["slots"]["workflows"]["size"] > 0
        assert set(worker["declarations"]) == {"ship@2", "odd@1", "send_mail@1"}
        assert worker["pid"] > 0
        assert worker["host"]
        assert worker["seenAt"] >= worker["startedAt"]
        assert (await api.get(f"workers/{escaped(worker['id'])}"))["id"] == worker["id"]
    [worker] = (await api.get("workers"))["workers"]
    assert (worker["state"], worker["connected"]) == ("stopped", False)


async def test_workers_that_tell_nothing_are_known_by_their_connection(api: Api) -> None:
    async with streaming(api.url, "gophers", "go-1"):
        found = await until(api, "workers", lambda found: found["workers"])
    [worker] = found["workers"]
    assert (worker["id"], worker["groups"], worker["connected"]) == ("go-1", ["gophers"], True)


async def test_a_drained_worker_finishes_and_claims_nothing_more(api: Api) -> None:
    app = hf.App(api.url)
    begun, finish = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        begun.set()
        await finish.wait()
        return "finished"

    @app.workflow
    async def hold() -> str:
        return await hf.run(wait)

    async with app:
        handle = app.start(hold, id="held")
        await begun.wait()
        [worker] = (await until(api, "workers", has_declared))["workers"]
        path = f"workers/{escaped(worker['id'])}"
        draining = await api.post(f"{path}/drain")
        assert draining["state"] in ("draining", "drained")
        app.session._reporter._is_due.set()  # type: ignore[union-attr]  # else it asks every 15 s
        await until(api, path, lambda found: found["state"] == "draining")
        finish.set()
        assert await handle == "finished"
        await app.start(hold, id="waits").started()
        app.session._reporter._is_due.set()  # type: ignore[union-attr]
        await until(api, path, lambda found: found["state"] == "drained")
        assert (await api.get("executions/waits"))["status"] == "pending"
        await api.post(f"{path}/undrain")
        app.session._reporter._is_due.set()  # type: ignore[union-attr]
        assert await app.handle("waits") == "finished"
        assert (await api.get(path))["state"] == "running"


async def test_what_nobody_has_told_of_cannot_be_drained(api: Api) -> None:
    assert await api.refused("POST", "workers/nobody/drain") == (404, "HF3420")


async def test_a_report_that_makes_no_sense_is_refused_and_changes_nothing(api: Api) -> None:
    good = {"group": "g", "startedAt": 1}
    for bad in (
        {},
        {"group": 5, "startedAt": 1},
        good | {"slots": {"x": 1}},
        good | {"queues": [1]},
        good | {"x": 1},
    ):
        assert await api.refused("POST", "workers/w", bad) == (400, "HF3401"), bad
    large = good | {"declared": "d", "declarations": [{"kind": "task", "name": "x" * 300_000}]}
    assert await api.refused("POST", "workers/w", large) == (400, "HF3401")
    assert (await api.get("workers"))["workers"] == []


async def test_declarations_without_a_digest_are_refused_and_workers_are_still_listed(api: Api) -> None:
    report: dict[str, Any] = {"group": "g", "startedAt": 1, "declarations": []}
    assert await api.refused("POST", "workers/bare", report) == (400, "HF3401")
    assert "bare" not in [each["id"] for each in (await api.get("workers"))["workers"]]
    await api.get("declarations")


async def test_a_store_that_fails_is_no_defect_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    async with running(Settings(port=0, store=f"sqlite:///{path}")) as server:
        with closing(sqlite3.connect(path)) as other:
            other.execute("ALTER TABLE holdfast_documents RENAME TO away")
            api = Api(server.url)
            assert await api.refused("GET", "workers") == (503, "HF1904")
            report = {"group": "g", "startedAt": 1}
            assert await api.refused("POST", "workers/w", report) == (503, "HF1904")
            other.execute("ALTER TABLE away RENAME TO holdfast_documents")
            await api.post("workers/w", report)


async def test_a_prefix_token_sees_and_tells_of_its_own_workers() -> None:
    settings = Settings(port=0, store="memory:", tokens=("admin-token", "acme acme-token"))
    async with running(settings) as server:
        tenant, admin = Api(server.url, "acme-token"), Api(server.url, "admin-token")
        declared = {"declared": "d", "declarations": [{"kind": "workflow", "name": "pay", "group": "acme"}]}
        await tenant.post("workers/w1", {"group": "acme-packers", "startedAt": 1} | declared)
        await admin.post("workers/w2", {"group": "other", "startedAt": 1})
        refused = await tenant.refused("POST", "workers/w3", {"group": "other", "startedAt": 1})
        assert refused[0] == 403
        refused = await tenant.refused(
            "POST", "workers/w3", {"group": "acme", "startedAt": 1, "queues": ["x"]}
        )
        assert refused[0] == 403
        assert [each["id"] for each in (await tenant.get("workers"))["workers"]] == ["w1"]
        assert [each["id"] for each in (await admin.get("workers"))["workers"]] == ["w1", "w2"]
        assert [each["name"] for each in (await tenant.get("declarations"))["declarations"]] == ["pay"]
        assert await tenant.refused("POST", "workers/w2/drain") == (404, "HF3420")


async def test_a_new_task_is_offered_to_those_that_are_not_drained() -> None:
    async with running(Settings(port=0, store="memory:")) as server:
        api = Api(server.url)
        async with (
            streaming(server.url, "packers", "one") as one,
            streaming(server.url, "packers", "two") as two,
        ):
            for name in ("one", "two"):
                await api.post(f"workers/{name}", {"group": "packers", "startedAt": 1})
            await api.post("workers/one/drain")
            for number in range(6):
                await call(server.url, "promise.create", create(f"t{number}", "poll://any@packers"))
            for _ in range(6):
                await two.message()
            assert one.pending == []
            assert one.buffer == b""
