"""The differential runner: the same steps to the oracle and to every back end, and no difference allowed.

After every step the replies must be equal (of an error only the status and that it says something), and after
every `snap_every` steps the snapshots too. The invariants are evaluated on the oracle's snapshots after every
single operation; since the snapshots are equal, they hold for every back end. A run that did not meet its
quotas fails as well. A difference is shrunk to the fewest steps that still show it before it is reported.

    python -m tests.model.differential --count 300000 --seed 7 --backends memory,sqlite

Back ends come from `tests.backends.open_direct_backend(name)`; `oracle` and `mutant` are made here.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tests.model import quotas
from tests.model.fields import Json
from tests.model.generator import START, Generator, Step
from tests.model.invariants import check_state, check_step
from tests.model.oracle import Oracle
from tests.model.quotas import Witness
from tests.seeds import DRAWN, chosen_seed, seed_of

SHRINK_SECONDS_MAX = 30.0


class Backend(Protocol):
    """Anything that answers one envelope, or an array of them."""

    def handle(self, body: Any) -> Any: ...


class OracleBackend:
    """An oracle, dressed as a back end."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle

    def handle(self, body: Any) -> Any:
        if isinstance(body, list):
            several: list[Any] = body  # pyright: ignore[reportUnknownVariableType]
            return [self.oracle.handle(envelope) for envelope in several]
        return self.oracle.handle(body)


class Difference(AssertionError):
    """A back end disagreed with the oracle, an invariant broke, or a quota was missed."""


@dataclass(slots=True)
class Report:
    """What a run saw."""

    count: int
    seconds: float
    seen: Counter[str]


def run(
    *,
    count: int,
    seed: int,
    backends: dict[str, Backend],
    snap_every: int = 1,
    invariants: bool = True,
    enforce_quotas: bool = True,
    tell: Callable[[int], None] | None = None,
) -> Report:
    """Run `count` operations; raises `Difference` at the first thing that is wrong."""
    witness = Witness()
    generator = Generator(random.Random(seed), witness)
    for backend in backends.values():
        backend.handle(debug("debug.start", START))
        backend.handle(debug("debug.reset", START))
    started, done, steps = time.monotonic(), 0, 0
    epoch: list[Step] = []
    before = witness.snap()
    while done < count:
        step = generator.step()
        steps += 1
        epoch.append(step)
        replies: list[Json] = []
        for envelope in envelopes(step):
            replies.append(witness.handle(envelope))
            if invariants:
                before = _check(witness, envelope, before, generator.now, seed, steps)
        done += len(replies)
        expected = replies if isinstance(step, list) else replies[0]
        witness.seen["array"] += isinstance(step, list)
        snap = (before if invariants else witness.snap()) if steps % snap_every == 0 else None
        for name, backend in backends.items():
            wrong = _disagreement(backend, step, expected, snap, generator.now)
            if wrong is not None:
                raise Difference(_explain(name, backend, seed, count, steps, epoch, step, wrong))
        if _kind(step) == "debug.reset":
            epoch.clear()
        if tell is not None:
            tell(done)
    report = Report(done, time.monotonic() - started, witness.seen)
    missed = quotas.unmet(witness.seen, done) if enforce_quotas and done >= quotas.COUNT_MIN else []
    if missed:
        raise Difference(f"seed {seed}: {len(missed)} quotas were missed\n  " + "\n  ".join(missed))
    return report


def envelopes(step: Step) -> list[Any]:
    return step if isinstance(step, list) else [step]


def debug(kind: str, now: int, data: Json | None = None) -> Json:
    head = {"corrId": kind, "version": "2026-04-01", "resonate:debug_time": now}
    return {"kind": kind, "head": head, "data": data or {}}


def _check(oracle: Oracle, envelope: Any, before: Json, now: int, seed: int, steps: int) -> Json:
    """Evaluate the invariants after one operation; gives the snapshot it looked at.

    What was accepted at one instant is accepted at every later one, so an operation that changed nothing
    needs no second look.
    """
    after = oracle.snap()
    if after == before:
        return before
    wrong = check_state(after, now)
    kind = _kind(envelope)
    if kind != "debug.reset":
        wrong += check_step(
            before,
            after,
            now,
            background=kind == "debug.tick",
            retry_ms=oracle.retry_ms,
            mending=_mends(envelope),
        )
    if wrong:
        raise Difference(
            f"seed {seed}, step {steps}: broken invariants\n  " + "\n  ".join(wrong) + f"\n{_show(envelope)}"
        )
    return after


def _mends(envelope: Json) -> bool:
    """May an execution begin again by it?"""
    action: Any = envelope["data"].get("action") if isinstance(envelope.get("data"), dict) else None
    inner: Any = action.get("kind") if isinstance(action, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return "execution.retry" in (envelope.get("kind"), inner) or envelope.get("kind") == "execution.start"


def _kind(envelope: Any) -> Any:
    return envelope.get("kind") if isinstance(envelope, dict) else None  # pyright: ignore


# ------------------------------------------------------------------------------------------ comparing


def _disagreement(backend: Backend, step: Step, expected: Any, snap: Json | None, now: int) -> str | None:
    """What the back end did differently in one step, in words; None if nothing."""
    actual = backend.handle(step)
    wrong = difference(comparable(expected), comparable(actual))
    if wrong is None and snap is not None:
        actual_snap = backend.handle(debug("debug.snap", now)).get("data")
        if actual_snap != snap:
            wrong = f"snapshot{difference(snap, actual_snap)}"
        return wrong
    return None if wrong is None else f"reply{wrong}"


def comparable(reply: Any) -> Any:
    """A reply without what may differ: the words of an error, and the version in the reply to a 400."""
    if isinstance(reply, list):
        replies: list[Any] = reply  # pyright: ignore[reportUnknownVariableType]
        return [comparable(each) for each in replies]
    try:
        status, data = reply["head"]["status"], reply["data"]
        if status >= 400:
            head = {**reply["head"], "version": ""} if status == 400 else reply["head"]
            return {**reply, "head": head, "data": "error" if isinstance(data, str) and data else data}
        if reply["kind"] == "task.fence":
            return {**reply, "data": {**data, "action": comparable(data["action"])}}
    except (KeyError, TypeError):
        pass  # no reply at all: it will differ from any
    return reply


def difference(expected: Any, actual: Any) -> str | None:
    """The first place where two JSON values differ; None if they are equal."""
    if expected == actual and type(expected) is type(actual):
        return None
    if isinstance(expected, dict) and isinstance(actual, dict):
        left: Json = expected  # pyright: ignore[reportUnknownVariableType]
        right: Json = actual  # pyright: ignore[reportUnknownVariableType]
        for key in sorted({*left, *right}, key=str):
            if key not in right:
                return f".{key}: missing, should be {_show(left[key])}"
            if key not in left:
                return f".{key}: {_show(right[key])} should not be there"
            if (wrong := difference(left[key], right[key])) is not None:
                return f".{key}{wrong}"
    if isinstance(expected, list) and isinstance(actual, list):
        these: list[Any] = expected  # pyright: ignore[reportUnknownVariableType]
        those: list[Any] = actual  # pyright: ignore[reportUnknownVariableType]
        for index, (one, other) in enumerate(zip(these, those, strict=False)):
            if (wrong := difference(one, other)) is not None:
                return f"[{index}]{wrong}"
        if len(these) > len(those):
            return f"[{len(those)}]: missing, should be {_show(these[len(those)])}"
        if len(those) > len(these):
            return f"[{len(these)}]: {_show(those[len(these)])} should not be there"
        return None
    return f": {_show(actual)}, should be {_show(expected)}"


def _show(value: Any, most: int = 600) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= most else text[:most] + "..."


# ------------------------------------------------------------------------------------------ explaining


def _explain(
    name: str, backend: Backend, seed: int, count: int, steps: int, epoch: list[Step], step: Step, wrong: str
) -> str:
    lines = [
        f"{name} differs from the oracle: seed {seed}, step {steps}",
        f"  {wrong}",
        f"  request: {_show(step)}",
    ]
    shortest = shrink(backend, epoch)
    if shortest is not None:
        fewest, why = shortest
        lines.append(f"the fewest steps that show a difference ({len(fewest)}), from an empty store:")
        lines += [f"  {_show(each, 4_000)}" for each in fewest]
        lines.append(f"  -> {why}")
    lines.append(
        f"replay: python -m tests.model.differential --seed {seed} --count {count} --backends {name}"
    )
    return "\n".join(lines)


def shrink(backend: Backend, steps: list[Step]) -> tuple[list[Step], str] | None:
    """The fewest of these steps that still make the back end differ, and how it does; None if they do not.

    Arrays are taken apart if that keeps the difference; then ever smaller runs of steps are left out.
    """
    wrong = replay(backend, steps)
    if wrong is None:
        return None
    fewest, size = list(steps), max(1, len(steps) // 2)
    until = time.monotonic() + SHRINK_SECONDS_MAX
    singles: list[Step] = [envelope for step in steps for envelope in envelopes(step) if _kind(envelope)]
    if replay(backend, singles) is not None:
        fewest = singles
    while time.monotonic() < until:
        start, shorter = 0, False
        while start < len(fewest) and time.monotonic() < until:
            candidate = fewest[:start] + fewest[start + size :]
            found = replay(backend, candidate)
            if found is not None:
                fewest, wrong, shorter = candidate, found, True
            else:
                start += size
        if size == 1 and not shorter:
            break
        size = max(1, size // 2)
    return fewest, wrong


def replay(backend: Backend, steps: list[Step]) -> str | None:
    """Run these steps from an empty store; the first difference, in words."""
    oracle = OracleBackend(Oracle())
    backend.handle(debug("debug.reset", START))
    for step in steps:
        now: int = max((e["head"]["resonate:debug_time"] for e in envelopes(step) if _kind(e)), default=START)
        expected = oracle.handle(step)
        wrong = _disagreement(backend, step, expected, oracle.oracle.snap(), now)
        if wrong is not None:
            return wrong
    return None


# --------------------------------------------------------------------------------------- command line


class ForgetfulOracle(Oracle):
    """A planted fault for the command line: a release raises the version."""

    def task_release(self, data: Json, call: Any) -> Any:
        answer = super().task_release(data, call)
        self.tasks[data["id"]].version += 1
        return answer


def open_named(name: str) -> Backend:
    if name == "oracle":
        return OracleBackend(Oracle())
    if name == "mutant":
        return OracleBackend(ForgetfulOracle())
    if importlib.util.find_spec("tests.backends") is None:
        raise SystemExit(f"{name}: there is no tests/backends.py to open it; try --backends oracle")
    backend: Backend = importlib.import_module("tests.backends").open_direct_backend(name)
    return backend


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model.differential", description=__doc__)
    parser.add_argument("--count", type=int, default=300_000, help="operations")
    parser.add_argument(
        "--seed", type=seed_of, default=chosen_seed(DRAWN), help="default: a new one, printed"
    )
    parser.add_argument("--backends", default="", help="names, separated by commas")
    parser.add_argument(
        "--snap-every", type=int, default=1, help="steps between two comparisons of snapshots"
    )
    parser.add_argument(
        "--tell-every", type=int, default=100_000, help="operations between two signs of life"
    )
    parser.add_argument("--verbose", action="store_true", help="print what was seen how often")
    options = parser.parse_args()
    seed = options.seed
    names = [name for name in options.backends.split(",") if name]
    print(f"seed {seed}, {options.count} operations, oracle and {names or 'nothing else'}", flush=True)
    told = 0

    def tell(done: int) -> None:
        nonlocal told
        if done >= told + options.tell_every:
            told = done
            print(f"{done:,}", flush=True)

    try:
        report = run(
            count=options.count,
            seed=seed,
            backends={name: open_named(name) for name in names},
            snap_every=options.snap_every,
            tell=tell,
        )
    except Difference as difference_found:
        print(difference_found)
        return 1
    if options.verbose:
        for name, times in sorted(report.seen.items()):
            print(f"{times * 1_000_000 // report.count:>9,} per million  {name}")
    print(f"no difference in {report.count:,} operations, {report.count / report.seconds:,.0f} a second")
    return 0


if __name__ == "__main__":
    sys.exit(main())
