"""`WorldTestCase`, as unittest itself runs it."""

import unittest
from typing import ClassVar

import holdfast as hf
from holdfast.testing import WorldTestCase
from holdfast.testing.fakes import Fakes

the_app = hf.App()


def greet(name: str) -> str:
    raise AssertionError("the real one was called")


def say_hello(name: str) -> str:
    return f"hello {name}"


@the_app.workflow
async def remind(name: str) -> str:
    await hf.sleep("30d")
    return await hf.run(greet, name)


def reminders() -> type[WorldTestCase]:
    """Made here, so that pytest does not run it by itself."""

    class Reminders(WorldTestCase):
        app = the_app
        replace: ClassVar[Fakes] = {greet: say_hello}

        def test_a_month_passes_at_once(self) -> None:
            handle = self.app.start(remind, "Ada", id="one")
            self.world.elapse("29d")
            self.world.kill()
            assert handle.result() == "hello Ada"

        def test_another_test_has_another_world(self) -> None:
            assert self.app.start(remind, "Bob", id="one").result() == "hello Bob"

    return Reminders


def without_app() -> type[WorldTestCase]:
    class Without(WorldTestCase):
        def test_nothing(self) -> None: ...

    return Without


def outcome(case: type[unittest.TestCase]) -> unittest.TestResult:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    return result


def test_each_test_runs_in_a_world_of_its_own() -> None:
    result = outcome(reminders())
    assert (result.testsRun, result.errors, result.failures) == (2, [], [])


def test_a_case_without_an_app_says_what_to_write() -> None:
    [(_, text)] = outcome(without_app()).errors
    assert "Without has no app: write `app = ...` in the class." in text
