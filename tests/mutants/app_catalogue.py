"""Faults in the life of an app, and in what it tells its callers."""

from tests.mutants.mutant import Mutant

APP = (
    Mutant(
        "the version of what has the id is not compared",
        "an id stands for one call",
        "workflow",
        "theirs.version != ours.version and NEWEST not in (theirs.version, ours.version)",
        "theirs.version < 0",
        "tests/app/test_taken_ids.py -k refused",
    ),
    Mutant(
        "arguments are compared as they were written",
        "the same call under the same id is one execution, also when it is encrypted",
        "workflow",
        "if _untyped(ours) == _untyped(theirs):\n    return",
        "",
        "tests/app/test_taken_ids.py",
    ),
    Mutant(
        "a promise of somebody else is learnt as ours",
        "what stands under an id that somebody else has used is not the operation's outcome",
        "workflow",
        "return ours is not None and (found.param.headers or {}).get(LABEL) != ours",
        "return False",
        "tests/app/test_taken_ids.py -k somebody_else",
    ),
    Mutant(
        "whoever settles second is not told",
        "settling tells who won",
        "host",
        "promise.state != state or not is_same_value(value, promise.value, self._payloads)",
        "promise.state != state",
        "tests/app/test_settling.py",
    ),
    Mutant(
        "an execution is settled from outside",
        "only its own code settles an execution",
        "host",
        "tags.TARGET in promise.tags",
        "tags.TIMER in promise.tags",
        "tests/app/test_settling.py",
    ),
    Mutant(
        "instants of the first send stay as they were guessed",
        "delays and timeouts count by the node's clock",
        "jobs",
        "if guess is None or guess.ticks is None:\n    return order",
        "if guess is None or guess.ticks is not None:\n    return order",
        "tests/app/test_clock.py",
    ),
    Mutant(
        "nobody who waits is told that the app is closed",
        "nobody waits forever",
        "host",
        "session.executions.stop_waiting()\nawait self._crossing.finish(within_s)",
        "await self._crossing.finish(within_s)",
        "tests/app/test_life.py -k is_told",
    ),
    Mutant(
        "an event loop is blocked",
        "a call that blocks is refused on an event loop",
        "host",
        "has_running_loop() and (self._drive is None or self.is_own_loop())",
        "False",
        "tests/app/test_life.py -k blocks",
    ),
    Mutant(
        "a forked child opens the file of its parent",
        "a SQLite file that was open before a fork is not opened in the child",
        "host",
        "if file_of(url) is not None:\n    raise OpenedBeforeFork(...)",
        "if file_of(url) is None:\n    raise OpenedBeforeFork(...)",
        "tests/app/test_fork.py",
    ),
    Mutant(
        "what fails to close leaves the rest open",
        "closing goes to its end",
        "node",
        "try:\n"
        "    await part()\n"
        "except GeneratorExit:\n"
        "    raise\n"
        "except BaseException as error:\n"
        "    failures.append(error)",
        "try:\n"
        "    await part()\n"
        "except GeneratorExit:\n"
        "    raise\n"
        "except BaseException as error:\n"
        "    failures.append(error)\n"
        "    break",
        "tests/app/test_life.py -k cannot_be_closed",
    ),
)
