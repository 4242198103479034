"""Every example runs as a script, as often as one likes, and ends the same wherever its worker is killed."""

import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import AlreadySettled
from holdfast.testing import Ledger, crash_everywhere
from tests.counts import FULL, rest_slow

RUNS = ("first", "second") if FULL else ("first",)
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SAID = {
    "hello": "Hello, Ada! Hello, Grace!",
    "saga": "no trip: museum is sold out",
    "human_approval": "paid: a kettle\npaid",
    "fan_out": "114 words",
    "race_with_timeout": "hare answers after 0.1 s\nnobody answered in time",
    "polling": "done after 3 questions",
    "pipeline": "published ARTICLE 4\n5 articles",
    "agent_loop": "Go to the beach on Saturday.",
    "tasks_fan_out": "BAD_ADDRESS: nobody\n5 of 6 sent",
    "tasks_joins": "everyone: 6\nanyone: 2\nmost: [1, 1]",
    "tasks_in_a_transaction": "order 1 confirmed\nTASK_NOT_FOUND",
    "versioning": "version 1: 72\nversion 2: 0.60 EUR",
    "shared_printer": "3 letters, one after the other",
    "wait_for_event": "ada came by mail",
    "shopping_cart": "the cart: {'tea': 1, 'milk': 2}\nbought: {'tea': 1, 'milk': 2}",
    "subscription": "2 months, [900, 700] cents, generation 1",
    "one_at_a_time": "a1 was replaced\nbuilt b2\n['built c3', 'built d4']\nwaiting then built nightly",
    "mend_failures": "['shelf 4 for order 1: 900 cents', 'shelf 4 for order 2: 900 cents']\n"
    "shelf 4 for order 0: 1800 cents",
    "customer_schedules": "report for acme\nschedules left: 0",
    "import_progress": "10 rows, attempts: 2\nrepeated: 0",
    "tenants": "['globex pays for tea', 'receipt of tea for globex']\n{'acme': 2, 'globex': 2}",
}

# What fails on purpose is in the log.
LOGGED = {
    "mend_failures": "step price of checkout",
    "import_progress": "will be tried again: UNHANDLED_EXCEPTION: the database is gone",
    "saga": "step book of trip trip-2 failed",
    "tasks_fan_out": "failed in attempt 1 and will not be tried again: BAD_ADDRESS: nobody",
    "tasks_joins": "failed in attempt 1 and will be tried again: NO_ANSWER: broken",
    "shopping_cart": "step reserve of Cart Cart/ada failed in attempt 1 and will not be tried again: SoldOut",
}


def test_every_example_is_tried_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == SAID.keys()


@pytest.mark.sized
@pytest.mark.parametrize("name", rest_slow(SAID, quick=6))
def test_an_example_runs_as_a_script_and_runs_again(name: str, tmp_path: Path) -> None:
    """In one folder: the second run finds the store of the first, and says the same in the end.

    `make test` has time for the first run of a few only.
    """
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    for run in RUNS:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, f"the {run} run: {done.stderr}"
        assert done.stdout.strip().endswith(SAID[name]), run
        done_before = run == "second" and not done.stderr
        assert done_before or name not in LOGGED or LOGGED[name] in done.stderr
        assert not done.stderr or name in LOGGED


class Example:
    """An example as a module, whose `print` enters a ledger."""

    def __init__(self, name: str) -> None:
        self.ledger = Ledger()
        spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        self.names: Any = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = self.names  # errors come back as themselves when their module is known
        spec.loader.exec_module(self.names)
        vars(self.names)["print"] = self.ledger.enter

    def crash(self, workflow: str, *args: Any, **options: Any) -> Any:
        found = getattr(self.names, workflow)
        return crash_everywhere(found, *args, app=self.names.app, ledger=self.ledger, **options)


def test_hello_survives() -> None:
    example = Example("hello")
    proof = example.crash("hello", ["Ada", "Grace"])
    assert proof.result == "Hello, Ada! Hello, Grace!"
    assert example.ledger.entries == ["greeting Ada", "greeting Grace"]
    assert proof.crashes >= 10


def test_a_saga_compensates_each_booking_once() -> None:
    example = Example("saga")
    example.crash("trip", ["flight", "hotel", "museum"], raises=example.names.SoldOut)
    assert example.ledger.entries == [
        "booked flight",
        "booked hotel",
        "cancelled hotel-5",
        "cancelled flight-6",
    ]


def test_an_approval_is_seen_whenever_it_comes() -> None:
    example = Example("human_approval")

    def boss(after_s: float, answer: bool) -> Callable[[], Coroutine[Any, Any, None]]:
        async def decide() -> None:
            await asyncio.sleep(after_s)
            with suppress(AlreadySettled):  # nobody waits for the answer any more
                await example.names.app.resolve("crash-test:1", answer)

        return decide

    day = 86_400
    assert example.crash("expense", "a kettle", outside=boss(2 * day, answer=True)).result == "paid"
    assert example.crash("expense", "a yacht", outside=boss(2 * day, answer=False)).result == "refused"
    assert example.crash("expense", "a pony", outside=boss(4 * day, answer=True)).result == "nobody answered"


def test_a_fan_out_survives() -> None:
    assert Example("fan_out").crash("count", ["a b", "c", "d e f", "g", "h", "i"]).result == 9


def test_a_race_ends_with_an_answer_that_was_possible() -> None:
    """A crash makes the carriers begin again while the timer goes on, so either may be first."""
    answers = {"hare answers after 0.4 s", "snail answers after 0.6 s", "nobody answered in time"}
    assert Example("race_with_timeout").crash("cheapest", 0.6, 0.4, check=answers.__contains__).crashes


def test_polling_survives() -> None:
    assert Example("polling").crash("wait_for", "the export", 604_800).result == 3


def test_a_pipeline_publishes_everything_once() -> None:
    example = Example("pipeline")
    example.crash("pipeline", 4)
    assert example.ledger.entries == [f"published ARTICLE {number}" for number in range(4)]


def test_an_agent_pays_for_no_turn_twice() -> None:
    example = Example("agent_loop")
    assert example.crash("agent", "What now?").result == "Go to the beach on Saturday."
    assert len(example.ledger.entries) == 5


def test_versions_survive() -> None:
    example = Example("versioning")
    assert example.crash("invoice", "kettle").result == 72
    assert example.crash("invoice_in_euro", "kettle").result == "0.60 EUR"


@pytest.mark.slow
def test_joins_of_tasks_survive() -> None:
    example = Example("tasks_joins")
    assert example.crash("everyone", ["a", "bb", "ccc"]).result == 6
    assert example.crash("anyone", ["broken", "bb"]).result == 2
    assert example.crash("most", ["a", "broken", "a"]).result == [1, 1]
