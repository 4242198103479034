"""Traces, span by span, with the SDK of OpenTelemetry: in one process, under replay, and after kill -9."""

import asyncio
import importlib
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.ext.otel import OpenTelemetry
from holdfast.testing import World
from holdfast.testing.mortal import CrashPoint
from tests.integrations import spans
from tests.processes import environment, eventually

ROOT = Path(__file__).parent.parent.parent
STEPS = ("charge", "book", "pack", "thank")
WHOLE = Counter(
    [
        ("workflow checkout", "start checkout"),
        ("step charge", "workflow checkout"),
        ("sleep", "workflow checkout"),
        ("step book", "workflow checkout"),
        ("call packing", "workflow checkout"),
        ("workflow packing", "call packing"),
        ("step pack", "workflow packing"),
        ("message", "workflow checkout"),
        ("step thank", "workflow checkout"),
    ]
)


class Shop:
    """An app with every kind of span."""

    def __init__(self, url: str) -> None:
        self.exporter = spans.in_memory()
        self.app = app = hf.App(url)
        app.use(OpenTelemetry(spans.provider(self.exporter)))
        self.failures = 1

        def charge(order: str) -> Any:
            if self.failures:
                self.failures -= 1
                raise ConnectionError("try again")
            return importlib.import_module("opentelemetry.baggage").get_baggage("customer")

        @app.task
        def mail(to: str) -> str:
            return to

        @app.workflow
        async def child(order: str) -> str:
            return await hf.run(str.upper, order, name="upper")

        @app.workflow
        async def order(name: str) -> list[Any]:
            customer = await hf.run(charge, name, retry=hf.Retry(attempts=3, delay=0.001))
            called = await hf.call(child, name)
            mailed = await hf.call(mail, "ada")
            return [customer, called, mailed.ok_value, await hf.receive(str)]

        self.order, self.mail = order, mail


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(f"sqlite:///{tmp_path}/holdfast.db")


def test_an_execution_is_one_tree_of_spans(shop: Shop) -> None:
    with shop.app:
        handle = shop.order.with_options(id="o").start("tea")
        shop.app.tell("o", "hello")
        assert handle.result() == [None, "TEA", "ada", "hello"]
    found = spans.finished(shop.exporter)
    assert Counter(spans.tree(found)) == Counter(
        [
            ("start order", None),
            ("workflow order", "start order"),
            ("step charge", "workflow order"),
            ("attempt charge", "step charge"),
            ("attempt charge", "step charge"),
            ("call child", "workflow order"),
            ("workflow child", "call child"),
            ("step upper", "workflow child"),
            ("attempt upper", "step upper"),
            ("call mail", "workflow order"),
            ("task mail", "call mail"),
            ("tell", None),
            ("message", "workflow order"),
        ]
    )
    by_name = {span.name: span for span in found}
    inside = {span.trace for span in found if span.name != "tell"}
    assert inside == {by_name["start order"].trace}
    assert by_name["message"].links == [by_name["tell"].id]
    assert by_name["workflow order"].links == [by_name["start order"].id]
    assert by_name["workflow child"].links == [by_name["call child"].id]
    assert by_name["task mail"].links == [by_name["call mail"].id]


def test_attempts_have_numbers_and_the_failed_one_its_error(shop: Shop) -> None:
    with shop.app:
        handle = shop.order.with_options(id="o").start("tea")
        shop.app.tell("o", "hello")
        handle.result()
    attempts = [span for span in spans.finished(shop.exporter) if span.name == "attempt charge"]
    assert [(span.attributes["holdfast.attempt"], span.status) for span in attempts] == [
        (1, "ERROR"),
        (2, "UNSET"),
    ]
    [step] = [span for span in spans.finished(shop.exporter) if span.name == "step charge"]
    assert step.attributes["holdfast.attempts"] == 2
    assert step.attributes["holdfast.operation"] == "o:1"


def test_the_span_of_an_execution_covers_those_of_its_steps(shop: Shop) -> None:
    with shop.app:
        handle = shop.order.with_options(id="o").start("tea")
        shop.app.tell("o", "hello")
        handle.result()
    found = {span.name: span for span in spans.finished(shop.exporter)}
    whole = found["workflow order"]
    slack_ns = 2_000_000  # the node counts in milliseconds
    for name in ("step charge", "call child", "message"):
        assert found[name].ended <= whole.ended + slack_ns


def test_the_context_of_a_caller_of_another_sdk_is_found_in_its_headers(shop: Shop) -> None:
    """Whoever creates the promise by the protocol may put the W3C headers there."""
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

    @shop.app.middleware("start")
    def elsewhere(invocation: hf.types.Invocation) -> Any:
        invocation.headers["traceparent"] = f"00-{trace}-{span}-01"
        invocation.headers["baggage"] = "customer=ada"
        yield

    with shop.app:
        handle = shop.order.with_options(id="o").start("tea")
        shop.app.tell("o", "hello")
        assert handle.result()[0] == "ada"
    [whole] = [each for each in spans.finished(shop.exporter) if each.name == "workflow order"]
    assert (whole.trace, whole.parent) == (trace, span)


def test_a_trace_that_is_not_sampled_has_no_spans_at_all(tmp_path: Path) -> None:
    sampling = importlib.import_module("opentelemetry.sdk.trace.sampling")
    exporter = spans.in_memory()
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")
    sampler = sampling.ParentBased(sampling.ALWAYS_OFF)
    app.use(OpenTelemetry(spans.provider(exporter, sampler=sampler)))

    @app.workflow
    async def order() -> int:
        return await hf.run(len, "tea", name="len")

    with app:
        assert order.start().result() == 3
    assert spans.finished(exporter) == []


def test_an_exporter_that_is_added_later_gets_the_spans_from_then_on(tmp_path: Path) -> None:
    """Until then nobody would see a span, so none is made: the step has no middleware around it."""
    provider = importlib.import_module("opentelemetry.sdk.trace").TracerProvider()
    export = importlib.import_module("opentelemetry.sdk.trace.export")
    trace = importlib.import_module("opentelemetry.trace")
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")
    app.use(OpenTelemetry(provider))

    def look(word: str) -> list[Any]:
        span = trace.get_current_span()
        return [span.is_recording(), f"{span.get_span_context().trace_id:032x}"]

    @app.workflow
    async def order(word: str) -> list[Any]:
        return await hf.run(look, word)

    exporter = spans.in_memory()
    with app:
        assert app.hooks.middlewares.around["step"] == ()
        is_recorded, trace_id = order.with_options(id="before").start("tea").result()
        assert not is_recorded
        assert int(trace_id, 16)  # the trace has an id all the same, for logs and for what is called
        provider.add_span_processor(export.SimpleSpanProcessor(exporter))
        is_recorded, trace_id = order.with_options(id="after").start("tea").result()
        assert is_recorded
    found = spans.finished(exporter)
    assert {span.trace for span in found} == {trace_id}
    assert Counter(spans.tree(found)) == Counter(
        [
            ("start order", None),
            ("workflow order", "start order"),
            ("step look", "workflow order"),
            ("attempt look", "step look"),
        ]
    )


def test_a_background_task_is_below_whoever_sent_it(shop: Shop) -> None:
    with shop.app:
        shop.mail.send("ada").get()
    found = spans.finished(shop.exporter)
    assert Counter(spans.tree(found)) == Counter([("send mail", None), ("task mail", "send mail")])


@pytest.mark.parametrize("write", range(1, 12))
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_worker_that_dies_at_any_write_tells_of_nothing_twice(write: int, side: Any) -> None:
    """What follows is a replay. If it dies before a write, the trace is whole; if after, with the reply lost,
    what that write recorded is told by nobody."""
    exporter = spans.in_memory()
    app = hf.App()
    app.use(OpenTelemetry(spans.provider(exporter)))

    @app.workflow
    async def order() -> int:
        total = 0
        for size in (1, 2, 3):
            total += await hf.run(len, "x" * size, name="len")
            await hf.sleep(60)
        return total

    with World(app, crashes=[CrashPoint(write, side)]):
        assert order.with_options(id="o").start().result() == 6
    recorded = [
        span for span in spans.finished(exporter) if span.name in ("workflow order", "step len", "sleep")
    ]
    assert {*Counter(span.id for span in recorded).values()} == {1}
    missing = 7 - len(recorded)
    assert missing == 0 if side == "before" else missing <= 2  # a wait, and the step that follows it


@pytest.mark.parametrize("write", range(1, 12))
@pytest.mark.parametrize("side", ["before", "after"])
def test_generations_of_an_execution_are_below_one_span_and_told_once(write: int, side: Any) -> None:
    exporter = spans.in_memory()
    app = hf.App()
    app.use(OpenTelemetry(spans.provider(exporter)))

    @app.workflow
    async def monthly(left: int) -> str:
        await hf.run(len, "x" * left, name="charge")
        if left:
            await hf.sleep("30d")
            hf.continue_as_new(left - 1)
        return "paid"

    with World(app, crashes=[CrashPoint(write, side)]):
        assert monthly.with_options(id="m").start(2).result() == "paid"
    found = spans.finished(exporter)
    recorded = [span for span in found if span.name in ("step charge", "sleep")]
    assert {*Counter(span.id for span in recorded).values()} == {1}
    missing = 5 - len(recorded)
    assert missing == 0 if side == "before" else missing <= 2
    if side == "before":
        [whole] = [span.id for span in found if span.name == "workflow monthly"]
        assert {span.parent for span in recorded} == {whole}


def test_waits_for_locks_events_and_entities_are_spans_too(shop: Shop) -> None:
    app = shop.app

    @app.entity
    class Account(hf.Entity):
        cents: int = 0

        async def deposit(self, cents: int) -> int:
            self.cents += await hf.run(int, str(cents), name="count")
            return self.cents

    @app.workflow
    async def pay(cents: int) -> int:
        async with hf.lock("till"):
            await hf.event("opened", timeout="1h", look_back="1h")
        return await Account("ada").deposit(cents)

    with app:
        app.event("opened")
        assert app.start(pay, 5, id="p").result() == 5
    found = spans.finished(shop.exporter)
    assert {*spans.tree(found)} >= {
        ("lock", "workflow pay"),
        ("event", "workflow pay"),
        ("entity", "workflow pay"),
        ("attempt count", "step count"),
    }
    by_name = {span.name: span for span in found}
    assert by_name["entity"].attributes["holdfast.other"] == "Account/ada"
    assert {span.trace for span in found if span.attributes.get("holdfast.execution") == "p"} == {
        by_name["workflow pay"].trace
    }


@pytest.mark.parametrize("killed_in", STEPS)
def test_after_kill_9_the_trace_is_whole(tmp_path: Path, killed_in: str) -> None:
    url, told = f"sqlite:///{tmp_path}/holdfast.db", tmp_path / "spans"
    command = [sys.executable, "-m", "tests.integrations.traced_shop", url, str(told)]

    def run(kill_in: str) -> subprocess.CompletedProcess[str]:
        words = [*command, kill_in]
        return subprocess.run(
            words, cwd=ROOT, env=environment(), timeout=120, text=True, capture_output=True, check=False
        )

    first = run(killed_in)
    assert first.returncode == -signal.SIGKILL, first.stderr
    second = run("nowhere")
    assert second.returncode == 0, second.stderr
    assert "thank" in second.stdout
    found = spans.read(told)
    recorded = [
        span for span in found if span.name.split()[0] in ("workflow", "step", "sleep", "call", "message")
    ]
    assert Counter(span.id for span in recorded).most_common(1)[0][1] == 1
    assert Counter(span.name for span in recorded) == Counter(name for name, _ in WHOLE.elements())
    # The execution was started by the killed process, which perhaps did not come to tell of its own span.
    names = {span.id: span.name for span in found} | {
        span.parent or "": "start checkout" for span in found if span.name == "workflow checkout"
    }
    assert Counter((span.name, names[span.parent or ""]) for span in recorded) == WHOLE
    attempts = Counter(span.name for span in found if span.name.startswith("attempt"))
    assert attempts == Counter(f"attempt {name}" for name in STEPS)


def test_metrics_are_instruments_too(tmp_path: Path) -> None:
    metrics: Any = importlib.import_module("opentelemetry.sdk.metrics")
    export: Any = importlib.import_module("opentelemetry.sdk.metrics.export")
    reader = export.InMemoryMetricReader()
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")
    app.use(OpenTelemetry(meter_provider=metrics.MeterProvider(metric_readers=[reader])))

    @app.workflow
    async def order(size: int) -> int:
        return 1 // size

    @app.task
    def mail(to: str) -> str:
        return to

    with app:
        assert order.start(1).result() == 1
        with pytest.raises(ZeroDivisionError):
            order.start(0).result()
        mail.send("ada").get()
    data = reader.get_metrics_data()
    found = {
        metric.name: {tuple(sorted(point.attributes.items())): point for point in metric.data.data_points}
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
    }
    assert found["holdfast.executions.started"][(("workflow", "order"),)].value == 2
    assert found["holdfast.executions.failed"][(("workflow", "order"),)].value == 1
    assert found["holdfast.execution.duration"][(("workflow", "order"),)].count == 2
    assert found["holdfast.task.wait"][(("queue", "default"), ("task", "mail"))].count == 1


def collected(reader: Any) -> dict[str, dict[str, Any]]:
    """By the name of the instrument, and the group that it tells of."""
    data = reader.get_metrics_data()
    scopes = data.resource_metrics[0].scope_metrics if data is not None else ()
    return {
        metric.name: {point.attributes["group"]: point.value for point in metric.data.data_points}
        for scope in scopes
        for metric in scope.metrics
        if metric.name.startswith("holdfast.queue.")
    }


def waiting_shop(folder: Path) -> tuple[hf.App, Any, Any]:
    """Nobody works, so whatever is sent waits. The app, its workflow, and the reader of its instruments."""
    metrics: Any = importlib.import_module("opentelemetry.sdk.metrics")
    reader = importlib.import_module("opentelemetry.sdk.metrics.export").InMemoryMetricReader()
    app = hf.App(f"sqlite:///{folder}/holdfast.db", worker=False)
    app.use(OpenTelemetry(meter_provider=metrics.MeterProvider(metric_readers=[reader])))

    @app.workflow
    async def order() -> None: ...

    return app, order, reader


def test_what_waits_and_for_how_long_is_a_gauge(tmp_path: Path) -> None:
    app, order, reader = waiting_shop(tmp_path)

    @app.task(queue="email")
    def mail(to: str) -> str:
        return to

    assert collected(reader) == {}, "nobody opens an app by collecting"
    with app:
        for _ in range(3):
            order.start()
        mail.send("ada")
        found = collected(reader)
        assert found["holdfast.queue.length"] == {"default": 3, "queue.email": 1}
        first = found["holdfast.queue.age"]["default"]
        eventually(lambda: collected(reader)["holdfast.queue.age"]["default"] > first >= 0)
    assert collected(reader) == {}


async def test_whoever_collects_on_an_event_loop_does_not_stop_it(tmp_path: Path) -> None:
    """He gets what was read for the one before him."""
    app, order, reader = waiting_shop(tmp_path)
    async with app:
        await order.start().started()
        assert collected(reader) == {}
        async with asyncio.timeout(60):
            while not (found := collected(reader)):  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert found["holdfast.queue.length"] == {"default": 1}


def test_prometheus_reads_what_an_app_exposes(tmp_path: Path) -> None:
    parse: Any = importlib.import_module("prometheus_client.parser").text_string_to_metric_families
    app = hf.App(f"sqlite:///{tmp_path}/holdfast.db")

    @app.workflow
    async def order() -> int:
        return 1

    with app:
        order.start().result()
        families = {family.name: family for family in parse(app.metrics())}
    [ended] = families["holdfast_executions_ended"].samples
    assert (ended.labels, ended.value) == ({"workflow": "order", "outcome": "completed"}, 1.0)
    lasted = families["holdfast_execution_duration_seconds"]
    assert lasted.type == "histogram"
