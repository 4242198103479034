"""How often a transactional step goes to the server: each trip costs as much as the user's own statement."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdfast as hf
from tests.postgres import execute
from tests.transact.test_killed import places


@pytest.mark.parametrize(("way", "trips"), [("own", 7), ("other", 4)])
def test_a_transactional_step_takes_few_trips_to_the_server(way: str, trips: int, tmp_path: Path) -> None:
    node_url, database, _ = places(way, "psycopg", tmp_path)
    waited: list[None] = []

    class Connection(psycopg.Connection[Any]):
        def wait(self, *given: Any, **options: Any) -> Any:
            waited.append(None)
            return super().wait(*given, **options)

    def credit(connection: Any, who: str) -> None:
        connection.execute("INSERT INTO ledger VALUES (%s, 5)", (who,))

    def connect() -> Any:
        return Connection.connect(database)

    app = hf.App(node_url)

    @app.workflow
    async def pay(who: str) -> None:
        await hf.transact(credit, who, on=connect)

    with app:
        app.start(pay, "ada").result()  # makes the table of steps
        waited.clear()
        app.start(pay, "bob").result()
    assert len(waited) == trips


def test_a_server_that_does_not_tell_which_one_it_is_can_be_used(tmp_path: Path) -> None:
    """On some managed servers nobody may ask for the identity of the system."""
    node_url, database, count = places("own", "psycopg", tmp_path)
    plain_url = node_url.replace("&beside=1", "")
    execute(
        plain_url,
        "CREATE FUNCTION pg_control_system() RETURNS TABLE (system_identifier bigint) LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'permission denied'; END $$",
    )
    app = hf.App(with_own_functions_first(node_url))

    def credit(connection: Any, who: str) -> int:
        connection.execute("INSERT INTO ledger VALUES (%s, 5)", (who,))
        return 5

    @app.workflow
    async def pay(who: str) -> int:
        return await hf.transact(credit, who, on=lambda: psycopg.connect(with_own_functions_first(database)))

    with app:
        assert app.start(pay, "ada").result() == 5
        with psycopg.connect(with_own_functions_first(database)) as connection:
            started = pay.with_options(connection=connection).start("bob")
        assert started.result(timeout=20) == 5
    assert count() == {"ada": 1, "bob": 1}


def with_own_functions_first(url: str) -> str:
    """Functions of the schema hide those of the system."""
    for before in ("search_path=", "search_path%3D"):
        head, found, rest = url.partition(before)
        if found:
            name, separator, more = rest.partition("&")
            return f"{head}{found}{name},pg_catalog{separator}{more}"
    raise AssertionError(url)
