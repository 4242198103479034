"""An external system for tests: a ledger that takes each effect once.

This is what a bank or a mail service does for its customers, so that a test can count effects.

1. An effect is known by the step or the background task that has it: performed again after a crash, it is
   not entered again.
2. The fence: an entry by somebody who no longer drives the execution is refused. The token that an execution
   carries grows from one holder to the next.
"""

from holdfast.runtime.slot import slot
from holdfast.workflow.functions import current


class StaleToken(Exception):
    """This holder of the execution has been replaced; its effect was refused."""


class Ledger:
    """
    ledger = Ledger()

    def charge(card: str) -> None:
        ledger.enter(f"charged {card}")
    """

    def __init__(self) -> None:
        self._entries: dict[str, str] = {}
        self._tokens: dict[str, int] = {}
        self.attempts = 0

    @property
    def entries(self) -> list[str]:
        """What has happened, in order, each thing once."""
        return [*self._entries.values()]

    def enter(self, effect: str) -> None:
        """Have an effect, from inside a step or a background task."""
        info = current()
        key = info.step if slot.scheduler is not None else info.step or info.id
        if key is None:
            raise RuntimeError("An effect belongs in a step: call this from a function given to hf.run().")
        self.attempts += 1
        if info.token < self._tokens.get(info.id, 0):
            raise StaleToken(f"{key}: token {info.token} is older than {self._tokens[info.id]}")
        self._tokens[info.id] = info.token
        known = self._entries.setdefault(key, effect)
        if known != effect:
            raise AssertionError(f"{key} had the effect {known!r} and now {effect!r}: not the same path")

    def clear(self) -> None:
        """Delete all entries, for a new test."""
        self._entries.clear()
        self._tokens.clear()
        self.attempts = 0
