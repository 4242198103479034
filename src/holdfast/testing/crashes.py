"""Kills the worker at every point of a workflow, and checks that nothing can be noticed from outside.

1. A run without crashes says what is right and which durable writes there are.
2. Then one run for each of them: killed just before it, and killed just after it (nobody heard the reply).
3. Each must end the same, record the same, have each effect once, and its record, replayed by itself, must
   lead to the same end by way of everything that was ever performed.
"""

import os
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar, cast

from msgspec import Struct

from holdfast.app import App
from holdfast.protocol import tags
from holdfast.protocol.records import Promise
from holdfast.protocol.streams import STEP_HEADER
from holdfast.steps.providers import Key
from holdfast.testing.fakes import Fakes
from holdfast.testing.ledger import Ledger
from holdfast.testing.mortal import CrashPoint
from holdfast.testing.replay import Untrue, check_replay
from holdfast.testing.world import World
from holdfast.workflow import journal as j
from holdfast.workflow.registry import WorkflowDefinition

T = TypeVar("T")
Errors: TypeAlias = type[Exception] | tuple[type[Exception], ...]

VARIABLE: Final = "HOLDFAST_CRASH_AT"
points_max_default: Final = 400


class CrashFailure(AssertionError):
    """A workflow that was killed at some point did not end as if it had not been."""


class CrashRun(Struct):
    """What is known of one run when it is over."""

    outcome: Any  # the result, or the error it ended with
    journal: dict[str, tuple[str, ...]]
    effects: list[str]
    writes: list[str]
    deaths: int

    @property
    def shown(self) -> str:
        return repr(self.outcome)


class Proof(Struct, frozen=True):
    """How much was tried: how many crashes, around these writes; `result` is what all runs ended with."""

    result: Any
    crashes: int
    writes: list[str]


def crash_everywhere(
    workflow: WorkflowDefinition[..., Any],
    /,
    *args: Any,
    app: App,
    id: str = "crash-test",  # noqa: A002
    outside: Callable[[], Coroutine[Any, Any, Any]] | None = None,
    ledger: Ledger | None = None,
    reset: Callable[[], None] | None = None,
    check: Callable[[Any], object] | None = None,
    raises: Errors = (),
    provide: Mapping[Key, Any] | None = None,
    replace: Fakes | None = None,
    at: str | None = None,
    points_max: int = points_max_default,
    seed: int = 0,
    **kwargs: Any,
) -> Proof:
    """Run a workflow once, then again with its worker killed before and after every durable write.

    `outside`: what other people do meanwhile (`await app.resolve(...)`), in virtual time. `ledger`: has the
    effects of its steps; each must be there once. `reset`: called before each run. `check`: called with each
    result; without it, all results must be equal. `raises`: the class of its error, if the workflow is meant
    to fail. `provide`: instead of what the app provides. `replace`: fakes for steps and tasks. `at`: run only
    this crash point; a failure names its own, and HOLDFAST_CRASH_AT does the same. `points_max`: try at most
    this many points, chosen by `seed`.

    >>> crash_everywhere(checkout, order, app=app, ledger=ledger)
    """

    def run(points: Sequence[CrashPoint]) -> CrashRun:
        if reset is not None:
            reset()
        if ledger is not None:
            ledger.clear()
        return run_once(
            app,
            workflow,
            args,
            kwargs,
            execution=id,
            outside=outside,
            ledger=ledger,
            provide=provide,
            replace=replace,
            points=points,
        )

    try:
        reference = run(())
    except Untrue as error:
        raise CrashFailure(
            f"{workflow.name} does not do the same twice, even without a crash: {error}"
        ) from error
    _expect(workflow, reference.outcome, raises)
    if check is not None and not isinstance(reference.outcome, BaseException):
        _accept(check, reference)
    wanted = at or os.environ.get(VARIABLE)
    plans = (
        [[CrashPoint.parse(word) for word in wanted.split("+")]]
        if wanted
        else _plans(len(reference.writes), points_max, seed)
    )
    for points in plans:
        try:
            _compare(reference, run(points), check)
        except Exception as error:
            raise _failure(workflow, points, reference, error) from error
    return Proof(reference.outcome, len(plans), reference.writes)


def _expect(workflow: WorkflowDefinition[..., Any], outcome: Any, raises: Errors) -> None:
    """A workflow that fails in every run ends the same in every run. It must be meant."""
    if isinstance(outcome, Exception) and not isinstance(outcome, raises):
        raise CrashFailure(
            f"{workflow.name} failed without any crash: {type(outcome).__name__}: {outcome}\n"
            f"If it is meant to fail: crash_everywhere(..., raises={type(outcome).__name__})."
        ) from outcome
    if raises != () and not isinstance(outcome, Exception):
        raise CrashFailure(f"{workflow.name} was meant to fail and ended with {outcome!r}")


def _plans(writes: int, points_max: int, seed: int) -> list[list[CrashPoint]]:
    """Every point alone; past the bound a random choice of them. Then a few runs with several crashes."""
    every = [CrashPoint(n + 1, side) for n in range(writes) for side in ("before", "after")]
    chance = random.Random(seed)  # noqa: S311
    singles = every if len(every) <= points_max else chance.sample(every, points_max)
    several = [sorted(chance.sample(every, 3), key=lambda point: point.write) for _ in range(min(writes, 20))]
    return [[point] for point in singles] + [points for points in several if len(every) >= 3]


def run_once(
    app: App,
    workflow: WorkflowDefinition[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    execution: str,
    outside: Callable[[], Coroutine[Any, Any, Any]] | None = None,
    ledger: Ledger | None = None,
    provide: Mapping[Key, Any] | None = None,
    replace: Fakes | None = None,
    points: Sequence[CrashPoint] = (),
) -> CrashRun:
    """One run, killed at these points. Raises `Untrue` if what it recorded is not what it did."""
    with World(app, crashes=points, provide=provide, replace=replace) as world:
        handle = app.start(cast(Any, workflow), *args, id=execution, **(kwargs or {}))
        others = world.loop.create_task(outside()) if outside is not None else None
        outcome: Any
        try:
            outcome = handle.result()
        except Exception as error:
            if world.troubles:
                raise AssertionError("; ".join(world.troubles)) from error
            if not world.is_over(execution):
                raise
            outcome = error
        if others is not None:
            world.run(_awaited(others))
        world.settle_down()
        for root in world.ended():
            world.run(check_replay(root, world.store, app.registry, world.worker_context(), world.performed))
        effects = sorted(ledger.entries) if ledger is not None else []
        return CrashRun(outcome, _comparable(world.store.promises), effects, world.fuse.writes, world.deaths)


async def _awaited(task: Any) -> Any:
    return await task


def _comparable(promises: dict[str, Promise]) -> dict[str, tuple[str, ...]]:
    """What must be the same in every run: all but the order of completions, the clock and tracebacks, and
    what steps have emitted: one that is performed again emits again."""
    found: dict[str, tuple[str, ...]] = {}
    repeated = {
        _stream_of(promise)
        for promise in promises.values()
        if tags.STREAM in promise.tags and STEP_HEADER in (promise.value.headers or {})
    }
    for promise in promises.values():
        if tags.STREAM in promise.tags and _stream_of(promise) in repeated:
            continue
        if "~" in promise.id:  # an observation: which came first may be chosen anew, if nothing followed
            continue
        headers = promise.param.headers or {}
        label = headers.get(j.LABEL, "")
        if label == "cancel":  # there when somebody asked, or when a step took long
            continue
        value = promise.value.data or "" if promise.state == "resolved" and label != "note now" else ""
        found[promise.id] = (promise.state, label, headers.get(j.ARGUMENTS, ""), value)
    return found


def _stream_of(element: Promise) -> tuple[str, str]:
    return element.tags[tags.PARENT], element.tags[tags.STREAM]


def _compare(reference: CrashRun, run: CrashRun, check: Callable[[Any], object] | None) -> None:
    if check is not None:
        if isinstance(run.outcome, BaseException):
            raise run.outcome
        _accept(check, run)
        return
    if not _same(reference.outcome, run.outcome):
        raise AssertionError(f"it ended with {run.shown}, without a crash with {reference.shown}")
    if reference.journal != run.journal:
        raise AssertionError(f"it recorded something else: {_difference(reference.journal, run.journal)}")
    if reference.effects != run.effects:
        raise AssertionError(f"its effects were {run.effects}, without a crash {reference.effects}")


def _accept(check: Callable[[Any], object], run: CrashRun) -> None:
    if check(run.outcome) is False:
        raise AssertionError(f"the check refused {run.shown}")


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, BaseException):
        return type(one) is type(other) and str(one) == str(other)
    return bool(one == other)


def _difference(reference: dict[str, tuple[str, ...]], found: dict[str, tuple[str, ...]]) -> str:
    for key in sorted(reference.keys() | found.keys(), key=lambda key: (len(key), key)):
        if reference.get(key) != found.get(key):
            return f"{key} is {found.get(key, 'absent')}, without a crash {reference.get(key, 'absent')}"
    return "nothing"


def _failure(
    workflow: WorkflowDefinition[..., Any],
    points: Sequence[CrashPoint],
    reference: CrashRun,
    error: Exception,
) -> CrashFailure:
    code = "+".join(map(str, points))
    places = "; then ".join(_place(point, reference.writes) for point in points)
    return CrashFailure(
        f"{workflow.name} was killed {places}, and {error}\n"
        f"To repeat this one: crash_everywhere(..., at={code!r}), or {VARIABLE}={code} in the environment."
    )


def _place(point: CrashPoint, writes: list[str]) -> str:
    what = writes[point.write - 1] if point.write <= len(writes) else "a write that only crashes cause"
    return f"{point.side} write {point.write} ({what})"
