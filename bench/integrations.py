"""What a step costs with middleware, a carried context variable and tracing on, against a plain one.

Tracing is measured three times: by the API of OpenTelemetry alone; by its SDK without an exporter, where
nobody would see a span and none is made; and by its SDK with a processor that drops what it is given. Then
two spans a step (the step, its attempt) are made and ended, and what the SDK takes for two bare spans in the
same run is shown beside it: no integration that tells of both can be cheaper. All are processes of their own
on a durable SQLite file, in turns, so that a busy moment meets both. All of them have the SDK loaded, because
the garbage collector looks at whatever is loaded. The ratio is that of the medians. Below it is how many
functions are called for a step, in Python and in C, on the app's thread: a busy machine changes that little.
Run it with `make bench-integrations`, which installs the SDK.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextvars import ContextVar
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import holdfast as hf
from bench.gate import Calls
from bench.table import Row, print_table

ROOT = Path(__file__).parent.parent
ratio_max = 1.15
tenant: ContextVar[str] = ContextVar("tenant")


def provider_of(kind: str) -> Any:
    sdk: Any = importlib.import_module("opentelemetry.sdk.trace")
    provider = sdk.TracerProvider()
    if kind == "spans":
        provider.add_span_processor(sdk.SpanProcessor())
    return provider


def two_bare_spans(count: int = 2_000) -> float:
    """Seconds of the processor for what a step and its attempt take of the SDK alone."""
    tracer = provider_of("spans").get_tracer("bench")
    began = process_time()
    for number in range(2 * count):
        tracer.start_span("step nothing", attributes={"id": "execution:1", "attempt": number}).end()
    return (process_time() - began) / count


def extend(app: hf.App, kind: str) -> None:
    from holdfast.ext.otel import OpenTelemetry

    app.use(OpenTelemetry(None if kind == "api" else provider_of(kind)))
    app.carry(tenant)

    @app.middleware("start", "workflow", "step")
    def around(invocation: hf.types.Invocation) -> Generator[None, Any, None]:
        yield


async def nothing(number: int) -> int:
    return number


async def measure(url: str, many: int, steps: int, kind: str) -> tuple[float, float, float]:
    """Seconds a step: by the clock, and of the processor. And functions called for one."""
    app = hf.App(url)
    provider_of("spans")  # loads the SDK
    if kind != "plain":
        extend(app, kind)

    @app.workflow
    async def flow(count: int) -> int:
        for number in range(count):
            await hf.run(nothing, number)
        return count

    tenant.set("acme")
    async with app:
        await app.start(flow, 20)
        began, busy = perf_counter(), process_time()
        await asyncio.gather(*(app.start(flow, steps) for _ in range(many)))
        took, worked = perf_counter() - began, process_time() - busy
        calls = Calls()
        sys.setprofile(calls.note)
        await asyncio.gather(*(app.start(flow, steps) for _ in range(many)))
        sys.setprofile(None)
    return took / (many * steps), worked / (many * steps), calls.count / (many * steps)


def child(kind: str, many: int, steps: int) -> tuple[float, float, float]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.integrations", "--one", kind, folder, str(many), str(steps)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    took, worked, calls = map(float, done.stdout.split())
    return took, worked, calls


def compare(what: str, kind: str, many: int, steps: int, rounds: int) -> tuple[Row, Row]:
    found: dict[str, list[tuple[float, float, float]]] = {"plain": [], kind: []}
    for _ in range(rounds):
        for kind, times in found.items():
            times.append(child(kind, many, steps))
    plain, busy, calls = (median(each) for each in zip(*found["plain"], strict=True))
    extended, busier, more = (median(each) for each in zip(*found[kind], strict=True))
    measured = (
        f"{extended / plain:.2f}x ({plain * 1e6:,.0f} to {extended * 1e6:,.0f} us; "
        f"processor {busier / busy:.2f}x, {busy * 1e6:,.0f} to {busier * 1e6:,.0f} us)"
    )
    counted = f"{more / calls:.2f}x ({calls:,.0f} to {more:,.0f})"
    limit = f"<= {ratio_max}x"
    return (
        Row(what, measured, limit, extended / plain <= ratio_max),
        Row(f"{what}: functions called", counted, limit, more / calls <= ratio_max),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--one", nargs=4)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    if given.one:
        kind, folder, many, steps = given.one
        url = f"sqlite:///{folder}/holdfast.db"
        print(*asyncio.run(measure(url, int(many), int(steps), kind)))
        return
    wheres = (("one workflow", 1, 400), ("32 at once", 32, 40))
    rows = [
        row
        for kind, what in (
            ("api", "middleware, carried context, tracing by the API (nobody records)"),
            ("sdk", "middleware, carried context, tracing by the SDK (no exporter: no span is made)"),
        )
        for where, many, steps in wheres
        for row in compare(f"{what}, {where}", kind, many, steps, given.rounds)
    ]
    bare = median(two_bare_spans() for _ in range(given.rounds))
    for where, many, steps in wheres:
        what = f"the same, every span made and dropped, {where}"
        required = f"two bare spans: {bare * 1e6:,.0f} us"
        found = compare(what, "spans", many, steps, given.rounds)
        rows += [row._replace(required=required, ok=True) for row in found]
    print_table("What integrations cost a step", rows)


if __name__ == "__main__":
    main()
