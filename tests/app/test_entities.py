"""Entities, from outside and from workflows."""

import asyncio
import gc
import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

import holdfast as hf
from holdfast.payloads.errors import BadArguments
from holdfast.protocol.errors import ExecutionOver
from holdfast.protocol.locks import lock_id, read_lock
from holdfast.testing import World, crash_everywhere
from holdfast.testing.ledger import Ledger
from holdfast.workflow.errors import BadEntity, EntityMisused, EntityStateUnread
from holdfast.workflow.execution import Execution

app = hf.App("memory:")
ledger = Ledger()


@pytest.fixture(autouse=True)
def fresh_ledger() -> None:
    ledger.clear()


async def notify(who: str, cents: int) -> None:
    ledger.enter(f"notify {who} {cents}")


class TooLittle(Exception):
    pass


@dataclass
class Line:
    text: str
    cents: int


@app.entity
class Account(hf.Entity):
    """An account."""

    balance: int = 0
    lines: list[Line] = []
    is_open: ClassVar[bool] = True

    def own_use(self) -> int:
        return len(self.lines)

    async def deposit(self, cents: int) -> int:
        self.balance += cents
        self.lines.append(Line("deposit", cents))
        await hf.run(notify, self.key, cents)
        return self.balance

    async def withdraw(self, cents: int) -> int:
        self.balance -= cents
        if self.balance < 0:
            raise TooLittle(f"{cents} is too much")
        return self.balance

    async def wait(self) -> int:
        self.balance += 1
        await hf.sleep("1h")
        return self.balance

    async def spoil(self) -> None:
        self.balance = "a text"  # type: ignore[assignment]

    async def move(self, other: str, cents: int) -> int:
        await self.withdraw(cents)
        await Account(other).deposit(cents)
        return self.balance

    @hf.read
    async def show(self) -> int:
        return self.balance

    @hf.read
    async def last(self, count: int = 1) -> list[Line]:
        return self.lines[-count:]

    @hf.read
    async def hurried(self) -> None:
        await hf.sleep(1)


@app.workflow
async def paying(who: str) -> list[int]:
    first = await Account(who).deposit(5)
    seen = await Account(who).show()
    both = await hf.gather(Account(who).deposit(1), Account(who).deposit(2))
    return [first, seen, *both, await Account(who).show()]


@app.workflow
async def refused(who: str) -> str:
    try:
        await Account(who).withdraw(5)
    except TooLittle as error:
        return str(error)
    return ""


def entity(key: str = "ada") -> Any:
    return app.entity(Account, key)


def test_calls_change_it_and_reads_look_at_it() -> None:
    with World(app):
        assert entity().show() == 0
        assert entity().deposit(5) == 5
        assert entity().deposit(cents=6) == 11
        assert entity().last(2) == [Line("deposit", 5), Line("deposit", 6)]
        assert entity("bob").show() == 0


def test_workflows_call_entities_in_order() -> None:
    with World(app):
        assert app.start(paying, "ada").result() == [5, 5, 6, 8, 8]
        assert app.start(paying, "ada").result() == [13, 13, 14, 16, 16]


def test_a_call_that_raises_changes_nothing_and_its_error_is_the_callers() -> None:
    with World(app):
        entity().deposit(3)
        with pytest.raises(TooLittle, match="5 is too much"):
            entity().withdraw(5)
        assert entity().show() == 3
        assert app.start(refused, "ada").result() == "5 is too much"
        assert entity().withdraw(3) == 0


def test_a_state_that_could_not_be_read_again_is_an_error_of_the_call() -> None:
    with World(app):
        entity().deposit(3)
        with pytest.raises(Exception, match="int"):
            entity().spoil()
        assert entity().show() == 3


def test_one_call_at_a_time_and_reads_beside_it() -> None:
    async def both() -> tuple[list[int], list[int]]:
        calls = [asyncio.ensure_future(app.entity(Account, "ada").wait()) for _ in range(3)]
        await asyncio.sleep(1800)
        seen = [await app.entity(Account, "ada").show()]
        await asyncio.sleep(3600)
        seen.append(await app.entity(Account, "ada").show())
        return list(await asyncio.gather(*calls)), seen

    with World(app) as world:
        done, seen = world.run(both())
        assert done == [1, 2, 3]
        assert seen == [0, 1]  # what the last finished call left


def test_entities_call_each_other() -> None:
    with World(app):
        entity("ada").deposit(10)
        assert entity("ada").move("bob", 4) == 6
        assert (entity("ada").show(), entity("bob").show()) == (6, 4)


def test_under_one_call_id_a_call_is_carried_out_once() -> None:
    with World(app):
        once: Any = app.entity(Account, "ada", call_id="evt-1")
        assert (once.deposit(5), once.deposit(5), entity().show()) == (5, 5, 5)


def test_they_are_listed_looked_at_and_deleted() -> None:
    keys = ["ada", "a.b:c/d %", "é"]
    with World(app):
        for key in keys:
            entity(key).deposit(1)
        accounts = app.entities(Account)
        assert sorted(accounts) == sorted(keys)
        assert accounts.state("é").balance == 1
        assert accounts.state("nobody").lines == []
        accounts.delete("ada")
        assert sorted(accounts) == sorted(keys[1:])
        with pytest.raises(ExecutionOver):
            entity("ada").deposit(1)


def test_an_idle_one_is_suspended_and_nothing_of_it_is_in_memory() -> None:
    with World(app) as world:
        for number in range(20):
            entity(f"k{number}").deposit(1)
        world.elapse("10s")
        assert {info.state for info in app.find("Account")} == {"suspended"}
        gc.collect()
        kept = [it.id for it in gc.get_objects() if isinstance(it, Execution)]
        assert [name for name in kept if name.startswith("Account/k")] == []


def test_none_of_its_code_has_run_until_there_is_a_call() -> None:
    with World(app) as world:
        for number in range(3):
            entity().withdraw(0)
            world.elapse("10s")
            [wait] = app.handle("Account/ada").info().waits
            assert (wait.id, wait.what) == (f"Account/ada:in.{number + 2}", f"message {number + 2}")
            assert (wait.file, wait.line) == ("", 0)


def test_calls_that_wait_while_another_is_handled_are_handled_without_a_claim_each() -> None:
    with World(app) as world:

        async def call_all() -> list[int]:
            return await asyncio.gather(*[app.entity(Account, "ada").deposit(1) for _ in range(5)])

        assert sorted(world.run(call_all())) == [1, 2, 3, 4, 5]
        assert world.fuse.writes.count("task.claim") <= 2


def test_records_of_its_generations_may_be_kept() -> None:
    other = hf.App("memory:", keep_generations=2)

    @other.entity
    class Kept(hf.Entity):
        count: int = 0

        async def add(self) -> int:
            self.count += 1
            await hf.run(notify, self.key, self.count)
            return self.count

    with World(other):
        kept: Any = other.entity(Kept, "one")
        assert [kept.add() for _ in range(5)] == [1, 2, 3, 4, 5]


@pytest.mark.skipif(
    sys.version_info >= (3, 13), reason="there the collector frees the frames of a closed fiber"
)
def test_what_a_call_leaves_in_memory_is_freed_without_the_garbage_collector() -> None:
    kept: list[str] = []
    with World(app) as world:
        for _ in range(2):  # the first round fills caches
            world.settle_down()
            gc.collect()
            gc.disable()
            try:
                for number in range(10):
                    entity(f"k{number}").deposit(1)
                world.elapse("10s")
                kept = [it.id for it in gc.get_objects() if isinstance(it, Execution)]
            finally:
                gc.enable()
    assert [name for name in kept if name.startswith("Account/k")] == []


def test_an_idle_one_that_is_called_writes_nothing_before_the_answer() -> None:
    """The message that wakes it comes with the claim: it is not asked for once more."""
    with World(app) as world:
        entity().withdraw(0)
        world.elapse("10s")
        before = len(world.fuse.writes)
        entity().withdraw(0)
        world.elapse("10s")
        writes = [each for each in world.fuse.writes[before:] if each != "task.claim"]
    assert "settle Account/ada:in" in writes[0], writes
    assert "task.restart" in writes[0]


def test_ten_minutes_after_a_call_nothing_is_left_of_it() -> None:
    with World(app) as world:
        for _ in range(100):
            entity().deposit(1)
        world.elapse("11m")
        for _ in range(5):
            entity().deposit(1)
        assert len(world.store.promises) < 25
        assert entity().show() == 105


def test_a_read_may_not_wait() -> None:
    with World(app), pytest.raises(EntityMisused, match="is a read, and a read cannot wait"):
        entity().hurried()


def test_a_read_may_not_set_a_field() -> None:
    with World(app):
        odd: Any = app.entity(Odd, "o")
        assert odd.count() == 1
        with pytest.raises(EntityMisused, match=r"Odd\.careless is a read, and sets 'calls': make it a call"):
            odd.careless()
        assert odd.remembering() == 2  # what it keeps beside its fields is no state
        assert odd.count() == 2


@app.workflow
async def setting_a_field() -> None:
    Account("ada").balance = 5


def test_a_reference_has_no_field_that_could_be_set() -> None:
    told = r"Account\('ada'\) is a reference and has no field 'balance'"
    with World(app), pytest.raises(EntityMisused, match=told):
        app.start(setting_a_field).result()


def test_an_entity_that_calls_itself_is_told_and_not_left_waiting() -> None:
    with World(app):
        with pytest.raises(EntityMisused, match=r"Account 'ada' calls itself.*`await self.deposit\(...\)`"):
            entity().move("ada", 0)
        assert entity().deposit(5) == 5


def test_a_reference_without_a_key_is_told_so() -> None:
    with pytest.raises(TypeError, match=r"Account\(\) missing 1 required positional argument: 'key'"):
        Account()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_arguments_are_checked_where_the_call_is_made() -> None:
    with World(app):
        with pytest.raises(BadArguments):
            entity().deposit("much")
        with pytest.raises(EntityMisused, match="has no call"):
            entity().steal()
        with pytest.raises(EntityMisused, match=r"plain method.*`async def`"):
            entity().own_use()
        with pytest.raises(EntityMisused, match="outside of a workflow"):
            assert Account("ada").deposit(5)
        with pytest.raises(EntityMisused, match="reference"):
            assert Account("ada").balance


def test_an_older_state_is_upgraded() -> None:
    old, new = hf.App("memory:"), hf.App("memory:")

    @old.entity(name="Basket")
    class OldBasket:
        items: str = ""

        async def add(self, item: str) -> str:
            self.items += f"{item} "
            return self.items

    @new.entity(name="Basket", version=2)
    class Basket:
        items: list[str] = []
        count: int = 0

        @classmethod
        def upgrade(cls, older: dict[str, Any], version: int) -> dict[str, Any]:
            assert version == 1
            return {"items": older["items"].split()}

        async def add(self, item: str) -> list[str]:
            self.items.append(item)
            return self.items

    @new.entity(name="Other")
    class Other:
        async def call(self) -> None: ...

    with World(old) as world:
        basket: Any = old.entity(OldBasket, "b")
        assert basket.add("tea") == "tea "
        promise = world.store.promises["Basket/b"]
    from holdfast.workflow.entities import state_in
    from holdfast.workflow.entity_class import entity_of

    assert state_in(entity_of(Basket), "b", promise, new.payloads).items == ["tea"]
    with pytest.raises(EntityStateUnread):
        state_in(entity_of(Other), "b", promise, new.payloads)


def test_a_class_of_a_newer_version_goes_on_with_what_an_older_one_has_stored(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'baskets.db'}"
    old, new, newest = hf.App(url), hf.App(url), hf.App(url)

    @old.entity(name="Basket")
    class OldBasket:
        items: str = ""

        async def add(self, item: str) -> str:
            self.items += f"{item} "
            return self.items

    @new.entity(name="Basket", version=2)
    class Basket:
        items: list[str] = []

        @classmethod
        def upgrade(cls, older: dict[str, Any], version: int) -> dict[str, Any]:
            return {"items": older["items"].split()}

        async def add(self, item: str) -> list[str]:
            self.items.append(item)
            return self.items

    @newest.entity(name="Basket", version=2)
    class NoBasket:  # it has forgotten what is stored
        async def add(self, item: str) -> None: ...

    with old:
        cast(Any, old.entity(OldBasket, "b")).add("tea")
    with newest, pytest.raises(EntityStateUnread):
        cast(Any, newest.entity(NoBasket, "b")).add("milk")
    with new:
        assert cast(Any, new.entity(Basket, "b")).add("milk") == ["tea", "milk"]
        assert new.entities(Basket).state("b").items == ["tea", "milk"]


@dataclass
class Deep:
    numbers: dict[str, list[int]] = field(default_factory=dict[str, list[int]])


def test_a_class_that_cannot_be_an_entity_is_refused() -> None:
    other = hf.App("memory:")

    class NoDefault:
        value: int

        async def call(self) -> None: ...

    class NoCall:
        value: int = 0

    class OwnInit:
        def __init__(self) -> None: ...

        async def call(self) -> None: ...

    class WrongDefault:
        value: int = "x"  # type: ignore[assignment]

        async def call(self) -> None: ...

    class Key:
        key: int = 0

        async def call(self) -> None: ...

    for wrong in (NoDefault, NoCall, OwnInit, Key):
        with pytest.raises(BadEntity):
            other.entity(wrong)
    with pytest.raises(Exception, match="Expected"):
        other.entity(WrongDefault)

    class Savings(Account):
        rate: int = 1

    with pytest.raises(BadEntity, match="Account is an entity already"):
        other.entity(Account)
    with pytest.raises(BadEntity, match="Savings is a subclass of the entity Account"):
        other.entity(Savings)


def test_a_dataclass_may_be_one_and_a_read_may_be_a_plain_function() -> None:
    other = hf.App("memory:")

    @other.entity
    @dataclass
    class Cart:
        items: list[str] = field(default_factory=list[str])
        paid: bool = False

        async def add(self, item: str) -> list[str]:
            self.items.append(item)
            return self.items

        @hf.read
        def count(self, least: int = 0) -> int:
            return max(least, len(self.items))

    @other.workflow
    async def shopping() -> int:
        reference: Any = cast(Any, Cart)("bob")
        await reference.add("tea")
        return cast(int, await reference.count())

    with World(other):
        cart: Any = other.entity(Cart, "ada")
        assert cart.count() == 0
        assert cart.add("tea") == ["tea"]
        assert cart.add("milk") == ["tea", "milk"]
        assert (cart.count(), cart.count(least=5)) == (2, 5)
        assert other.start(shopping).result() == 1
        with pytest.raises(BadArguments):
            cart.count("x")


def test_workflows_that_call_entities_survive_a_crash_at_every_write() -> None:
    proof = crash_everywhere(paying, "ada", app=app, ledger=ledger)
    assert proof.result == [5, 5, 6, 8, 8]
    assert proof.crashes > 20


def test_an_error_that_is_too_large_is_cut_and_does_not_end_the_entity() -> None:
    app = hf.App("memory:")

    @app.entity
    class Clumsy:
        calls: int = 0

        async def fail(self) -> None:
            raise ValueError("x" * 2_000_000)

        async def count(self) -> int:
            self.calls += 1
            return self.calls

    with app:
        clumsy: Any = app.entity(Clumsy, "c")
        with pytest.raises(hf.errors.NotRecorded, match="ValueError: xxx"):
            clumsy.fail()
        assert clumsy.count() == 1


@app.entity
class Odd(hf.Entity):
    """Its calls end in ways that are the entity's own elsewhere."""

    calls: int = 0

    async def cancel_itself(self) -> None:
        self.calls += 100
        raise hf.Cancelled("by the method")

    async def end_its_task(self) -> None:
        self.calls += 100
        raise asyncio.CancelledError

    async def go_on(self) -> None:
        self.calls += 100
        hf.continue_as_new()

    async def count(self) -> int:
        self.calls += 1
        return self.calls

    async def wait(self) -> None:
        await hf.sleep("1h")

    async def keep_a_lock(self) -> int:
        await hf.lock("nobody's", timeout="1m").acquire()
        self.calls += 1
        return self.calls

    @cached_property
    def doubled(self) -> int:
        return 2 * self.calls

    @hf.read
    async def remembering(self) -> int:
        return self.doubled

    @hf.read
    async def careless(self) -> int:
        self.calls += 1
        return self.calls


@app.workflow
async def call_odd(key: str, method: str) -> str:
    try:
        await getattr(Odd(key), method)()
    except hf.errors.ExecutionCancelled as error:
        return str(error)
    return "nothing"


@pytest.mark.parametrize(
    ("method", "raised"), [("cancel_itself", "Cancelled"), ("end_its_task", "CancelledError")]
)
def test_a_cancellation_that_nobody_asked_for_is_the_error_of_its_call(method: str, raised: str) -> None:
    with World(app):
        odd: Any = app.entity(Odd, "o")
        with pytest.raises(hf.errors.ExecutionCancelled, match=f"A call of Odd/o raised {raised}"):
            getattr(odd, method)()
        assert odd.count() == 1
        assert f"raised {raised}" in app.start(call_odd, "o", method).result()
        assert odd.count() == 2


def test_an_entity_that_is_cancelled_ends() -> None:
    with World(app) as world:
        waiting = app.start(call_odd, "gone", "wait", id="waits")
        world.elapse("1m")
        app.handle("Odd/gone").cancel()
        with pytest.raises(ExecutionOver, match="Odd/gone"):
            waiting.result()
        with pytest.raises(ExecutionOver):
            cast(Any, app.entity(Odd, "gone")).count()


def test_a_method_cannot_continue_as_new_and_its_caller_is_told() -> None:
    with World(app):
        odd: Any = app.entity(Odd, "o")
        with pytest.raises(hf.errors.EntityContinues, match=r"Odd/o called continue_as_new.*HF5143"):
            odd.go_on()
        assert odd.count() == 1


def test_a_lock_that_a_call_leaves_behind_is_released_with_its_answer() -> None:
    with World(app) as world:
        odd: Any = app.entity(Odd, "o")
        assert odd.keep_a_lock() == 1
        assert read_lock(world.store.promises[lock_id("nobody's")]).is_idle
        assert odd.keep_a_lock() == 2


@app.entity
class Printer(hf.Entity):
    pages: int = 0

    async def print(self, ready: str) -> int:
        async with hf.lock(ready):
            self.pages += 1
        return self.pages


@app.workflow
async def printing() -> str:
    told = ""
    async with hf.lock("tray"):
        try:
            await Printer("p").print("tray")
        except hf.errors.LockDeadlock as error:
            told = str(error)
    return f"{told}, {await Printer('p').print('tray')}"


def test_an_entity_that_wants_a_lock_of_its_caller_is_told_and_so_is_the_caller() -> None:
    with World(app):
        told = app.start(printing, id="job").result()
        assert "'Printer/p' waits for 'tray', which 'job' holds; 'job' waits for 'Printer/p'" in told
        assert told.endswith("[HF1503], 1")


def test_a_deadlock_through_an_entity_is_found_after_a_crash_at_every_write() -> None:
    crash_everywhere(printing, app=app, check=lambda told: "HF1503" in told and told.endswith(", 1"))
