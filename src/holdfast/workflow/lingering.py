"""Whether an execution that waits for its next message keeps its claim for a moment, and for how long.

A message to a suspended execution costs a claim before the code sees it: one commit more. An execution that
keeps its claim is told of the message itself.

1. A moment is as long as a few writes take, and never long: meanwhile the execution has a slot.
2. An entity always stays for a moment. Any other execution stays only if its last message came within one, so
   where messages come slowly none of them costs a commit more.
3. With more than a few executions at work in this process nobody stays.
"""

from math import inf
from typing import Final

executions_max: Final = 4  # with more at work here nobody stays
moment_s_max: Final = 0.25
writes_in_a_moment: Final = 4


class Lingering:
    """Times are by the clock of the event loop."""

    def __init__(self) -> None:
        self.moment_s = 0.0
        self._suspended_s = -inf
        self._has_paid = False  # did the last message come within a moment?

    def pays(self, executions: int, *, is_entity: bool) -> bool:
        return executions <= executions_max and (is_entity or self._has_paid)

    def suspended(self, began_s: float, now_s: float) -> None:
        """The write that suspended it took from then until now."""
        self.wrote(began_s, now_s)
        self._suspended_s = now_s

    def resumed(self, now_s: float) -> None:
        self._has_paid = now_s - self._suspended_s < self.moment_s

    def wrote(self, began_s: float, now_s: float) -> None:
        self.moment_s = min(moment_s_max, writes_in_a_moment * (now_s - began_s))

    def ended(self, *, has_changes: bool) -> None:
        """It has stayed for a moment."""
        self._has_paid = has_changes
