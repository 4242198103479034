"""For `unittest`: a test case with a world of its own."""

from collections.abc import Mapping
from typing import Any, ClassVar
from unittest import TestCase

from holdfast.app import App
from holdfast.steps.providers import Key
from holdfast.testing.fakes import Fakes
from holdfast.testing.world import World


class WorldTestCase(TestCase):
    """Every test has a new world: virtual time, a store in memory, a worker that can be killed.

    >>> class TestCheckout(WorldTestCase):
    ...     app = app
    ...     replace = {charge: fake_charge}
    ...
    ...     def test_it_waits_for_a_month(self):
    ...         handle = self.app.start(remind, "Ada")
    ...         self.world.elapse("30d")
    ...         self.assertEqual(handle.result(), "reminded Ada")
    """

    app: ClassVar[App]
    provide: ClassVar[Mapping[Key, Any]] = {}
    replace: ClassVar[Fakes] = {}
    world: World

    def setUp(self) -> None:
        super().setUp()
        if not isinstance(getattr(type(self), "app", None), App):
            raise TypeError(f"{type(self).__name__} has no app: write `app = ...` in the class.")
        own: type[WorldTestCase] = type(self)
        world = World(own.app, provide=own.provide, replace=own.replace)
        self.world = self.enterContext(world)
