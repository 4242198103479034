"""Arguments that do not fit are refused by name before anything is started; tasks are sent by JSON."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

import holdfast as hf
from holdfast.server.serving import running
from holdfast.server.settings import Settings
from tests.management.client import Api
from tests.management.test_api import until
from tests.postgres import database_url


@dataclass
class Parcel:
    weight: float
    tags: list[str]


@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"])
async def test_arguments_are_compared_with_what_is_declared(store: str, tmp_path: Path) -> None:
    stores = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/h.db"}
    where = stores[store] if store in stores else database_url()
    async with running(Settings(port=0, store=where)) as server:
        api, app = Api(server.url), hf.App(server.url)

        @app.workflow
        async def ship(parcel: Parcel, how: Literal["air", "sea"] = "sea", note: str | None = None) -> str:
            return f"{parcel.weight} by {how}"

        @app.workflow
        async def approve() -> bool:
            return await hf.promise(bool, timeout="1h")

        @app.task(queue="mail")
        def send_mail(address: str) -> str:
            return address

        async with app:
            for _ in range(3_000):
                if len((await api.get("declarations"))["declarations"]) == 3:
                    break
                await asyncio.sleep(0.01)
            good: Any = {"weight": 1.5, "tags": ["a"]}
            wrong: list[tuple[Any, Any, str]] = [
                ([], {}, "parcel is missing"),
                ([{"weight": "1"}], {}, "parcel.tags is missing"),
                ([{"weight": "1", "tags": []}], {}, "parcel.weight must be of type number, not string"),
                ([{"weight": 1, "tags": [1]}], {}, "parcel.tags[0] must be of type string"),
                ([good, "rail"], {}, "how must be one of air, sea"),
                ([good], {"note": 5}, "note is not one of the allowed values"),
                ([good], {"parcel": good}, "parcel is given twice"),
                ([good], {"nope": 1}, "no argument 'nope'"),
                ([good, "air", None, 1], {}, "4 arguments by position"),
            ]
            for args, kwargs, why in wrong:
                answer = await api.call(
                    "POST", "executions", {"workflow": "ship", "args": args, "kwargs": kwargs}
                )
                assert (answer.status, answer.json["code"]) == (400, "HF3422"), (args, answer.body)
                assert why in answer.json["error"]
            assert (await api.get("executions"))["executions"] == []
            begun = await api.post(
                "executions", {"workflow": "ship", "args": [good], "kwargs": {"how": "air"}}
            )
            assert (await until(api, begun["id"], "completed"))["result"] == "1.5 by air"
            unchecked: Any = {"workflow": "ship", "args": [], "check": False, "id": "unchecked"}
            assert (await api.post("executions", unchecked))["id"] == "unchecked"
            assert (await api.post("executions", {"workflow": "unknown", "args": [1]}))["id"]

            sent = await api.post(
                "tasks", {"task": "send_mail", "args": ["a@b"], "id": "m1", "tags": {"c": "4"}}
            )
            assert (sent["kind"], sent["queue"], sent["tags"]["c"]) == ("task", "mail", "4")
            assert (await until(api, "m1", "completed", "tasks"))["result"] == "a@b"
            assert await api.refused("POST", "tasks", {"task": "send_mail", "args": [1]}) == (400, "HF3422")
            assert await api.refused("POST", "tasks", {"task": "send_mail", "args": ["x"], "id": "m1"}) == (
                409,
                "HF3402",
            )
            assert await api.refused("POST", "tasks", {}) == (400, "HF3401")

            await api.post("executions", {"workflow": "approve", "id": "a1"})
            waiting = await until(api, "a1", "suspended")
            [wait] = waiting["waits"]
            assert wait["schema"] == {"type": "boolean"}
            await api.post(f"promises/{wait['id']}/resolve", {"value": True})
            assert (await until(api, "a1", "completed"))["result"] is True
