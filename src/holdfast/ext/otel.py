"""OpenTelemetry: traces that are right under replay, and metrics. On the API package alone.

    app.use(OpenTelemetry())

| span | from | until | told by |
|---|---|---|---|
| `start NAME`, `send NAME`, `tell`, `ask` | the call | the node has it | whoever calls |
| `workflow NAME` | the start of the execution | its end, over all processes | the process that ends it |
| `step NAME` | its first attempt | its last, with the waits between | the process that records it |
| `attempt NAME` | the function begins | it ends | whoever performs it, each time |
| `sleep`, `promise`, `call NAME`, `message` | it is asked for | it completes | the process that goes on |
| `task NAME` | an attempt begins | it ends | the worker that runs it |

1. The ids of `workflow`, `step` and the waits are derived from the ids of executions and operations. So every
   process knows them beforehand, and a span that is not written yet can be a parent.
2. Each of these spans is told once, after the commit that records what it tells of. A process that is killed
   between the commit and the export loses that span, as it loses what its exporter had not sent.
3. The context travels in W3C headers (`traceparent`, `tracestate`, `baggage`) of the call or message, where
   SDKs in other languages find it, and may put it.
"""

from collections import OrderedDict
from collections.abc import Generator, Mapping
from hashlib import blake2b
from threading import local
from typing import Any, Final

from holdfast.ext.optional import load
from holdfast.ext.otel_metrics import Instruments
from holdfast.protocol.records import Promise
from holdfast.steps.middleware import Invocation, Middlewares
from holdfast.steps.observer import EndedExecution, EndedOperation, Observer, TaskAttempt

NAME: Final = "holdfast"
executions_max: Final = 1_000  # whose contexts are kept; others are read from their headers again
named_kinds: Final = frozenset({"step", "call", "start", "promise"})  # others have ids in their labels


class OpenTelemetry(Observer):
    """`tracer_provider`, `meter_provider`: instead of the global ones."""

    def __init__(self, tracer_provider: Any = None, meter_provider: Any = None) -> None:
        self._trace = load("opentelemetry.trace", "otel")
        self._context = load("opentelemetry.context", "otel")
        text_map = load("opentelemetry.trace.propagation.tracecontext", "otel")
        baggage = load("opentelemetry.baggage.propagation", "otel")
        self._propagators = (text_map.TraceContextTextMapPropagator(), baggage.W3CBaggagePropagator())
        self._provider = tracer_provider
        self._traced_by: Any = None
        self._tracer: Any = None
        self._is_live = False  # is there a tracer that can record?
        self._records = False  # and would anybody see a span?
        self._apps: list[Middlewares] = []
        self._chosen = _ChosenIds()
        self._executions: OrderedDict[str, tuple[Any, Any, Any, Any]] = OrderedDict()
        self._instruments = Instruments(load("opentelemetry.metrics", "otel"), meter_provider)

    def install(self, app: Any) -> None:
        middlewares: Middlewares = app.hooks.middlewares
        middlewares.add(self._around_asking, ("start", "send", "tell"))
        middlewares.add(self._around_workflow, ("workflow",))
        middlewares.add(self._around_step, ("step",))
        middlewares.add(self._around_task, ("task",))
        middlewares.set_active(self._around_step, is_active=self._records)
        self._apps.append(middlewares)
        self._instruments.watch(app)

    # --- who asks ----------------------------------------------------------------------------------------

    def _around_asking(self, invocation: Invocation) -> Generator[None, Any, None]:
        if invocation.execution is not None:
            yield from self._around_asking_inside(invocation)
            return
        tracer = self._our_tracer()
        if not self._records:
            self._inject(invocation.headers, self._context.get_current())
            yield
            return
        name = invocation.name if invocation.kind == "tell" else f"{invocation.kind} {invocation.name}"
        kind = self._trace.SpanKind.PRODUCER
        span = tracer.start_span(name, kind=kind, attributes={"holdfast.id": invocation.id})
        self._inject(invocation.headers, self._trace.set_span_in_context(span))
        try:
            yield
        except Exception as error:
            self._fail(span, error)
            raise
        finally:
            span.end()

    def _around_asking_inside(self, invocation: Invocation) -> Generator[None, Any, None]:
        """The code of a workflow asks: the span of that operation is told when it ends, under an id that is
        known once the operation has one."""
        self._inject(invocation.headers, self._context.get_current())
        yield
        mine = self._trace.get_current_span().get_span_context()
        if mine.is_valid and invocation.kind != "tell":
            called = self._context_of(mine, _span_id(invocation.id))
            span = self._trace.NonRecordingSpan(called)
            self._inject(invocation.headers, self._trace.set_span_in_context(span))

    # --- where the code runs -----------------------------------------------------------------------------

    def _around_workflow(self, invocation: Invocation) -> Generator[None, Any, None]:
        """The fibers, and what they start, are below the span of the execution. They have a Context of their
        own, so nothing need be put back."""
        self._our_tracer()
        above = self._extract(invocation.headers)
        span = self._trace.NonRecordingSpan(self._execution_context(above, invocation.id, invocation.name))
        self._context.attach(self._trace.set_span_in_context(span, above))
        yield

    def _around_step(self, invocation: Invocation) -> Generator[None, Any, None]:
        mine = self._trace.get_current_span().get_span_context()
        above = self._context.get_current()
        if mine.is_valid:
            step = self._trace.NonRecordingSpan(self._context_of(mine, _span_id(invocation.id)))
            above = self._trace.set_span_in_context(step, above)
        attributes = {"holdfast.operation": invocation.id, "holdfast.attempt": invocation.attempt}
        span = self._tracer.start_span(f"attempt {invocation.name}", above, attributes=attributes)
        yield from self._inside(span, above)

    def _around_task(self, invocation: Invocation) -> Generator[None, Any, None]:
        above = self._extract(invocation.headers)
        caller = self._trace.get_current_span(above).get_span_context()
        span = self._our_tracer().start_span(
            f"task {invocation.name}",
            above,
            kind=self._trace.SpanKind.CONSUMER,
            attributes={"holdfast.id": invocation.id, "holdfast.attempt": invocation.attempt},
            links=[self._trace.Link(caller)] if caller.is_valid else [],
        )
        yield from self._inside(span, above)

    def _inside(self, span: Any, above: Any) -> Generator[None, Any, None]:
        """Spans that the function makes are below this one."""
        token = self._context.attach(self._trace.set_span_in_context(span, above))
        try:
            yield
        except BaseException as error:
            self._fail(span, error)
            raise
        finally:
            self._context.detach(token)
            span.end()

    # --- what was recorded -------------------------------------------------------------------------------

    def execution_began(self, root: Promise, workflow: str, waited_s: float) -> None:
        self._instruments.execution_began(root, workflow, waited_s)

    def execution_ended(self, ended: EndedExecution) -> None:
        self._instruments.execution_ended(ended)
        self._our_tracer()
        if not self._records:
            return
        root = ended.root
        above, caller, mine, _ = self._known(root, ended.workflow)
        self._executions.pop(root.id, None)
        attributes = {
            "holdfast.id": root.id,
            "holdfast.workflow": ended.workflow,
            "holdfast.ending": ended.ending,
        }
        links = [self._trace.Link(caller)] if caller.is_valid else []
        self._tell(
            f"workflow {ended.workflow}",
            above,
            (mine.trace_id, mine.span_id),
            (root.created_at, ended.ended_at),
            attributes,
            ended.error,
            links=links,
            kind=self._trace.SpanKind.CONSUMER,
        )

    def wants_operations(self) -> bool:
        self._our_tracer()
        return self._records

    def operation_ended(self, ended: EndedOperation) -> None:
        if not self._records:
            return
        root = ended.root
        _, _, mine, above = self._known(root, ended.workflow)
        attributes: dict[str, Any] = {"holdfast.execution": root.id, "holdfast.operation": ended.id}
        if ended.kind == "step":
            attributes["holdfast.attempts"] = ended.attempts
        if ended.other is not None:
            attributes["holdfast.other"] = ended.other
        links: list[Any] = []
        if ended.headers:
            sender = self._trace.get_current_span(self._extract(ended.headers)).get_span_context()
            links = [self._trace.Link(sender)] if sender.is_valid else []
        self._tell(
            f"{ended.kind} {ended.name}".strip() if ended.kind in named_kinds else ended.kind,
            above,
            (mine.trace_id, _span_id(ended.id)),
            (ended.began_at, ended.ended_at),
            attributes,
            ended.error,
            links=links,
            kind=self._trace.SpanKind.CLIENT if ended.kind in ("call", "ask") else None,
        )

    def task_began(self, attempt: TaskAttempt) -> None:
        self._instruments.task_began(attempt)

    def task_ended(self, attempt: TaskAttempt) -> None:
        self._instruments.task_ended(attempt)

    # --- spans -------------------------------------------------------------------------------------------

    def _tell(
        self,
        name: str,
        above: Any,
        ids: tuple[int, int],
        times_ms: tuple[float, float],
        attributes: Mapping[str, Any],
        error: BaseException | None,
        *,
        links: list[Any],
        kind: Any = None,
    ) -> None:
        """A span that is over."""
        began_ms, ended_ms = times_ms
        ended_ns = round(ended_ms * 1_000_000)
        self._chosen.ids.chosen = ids
        try:
            span = self._tracer.start_span(
                name,
                above,
                kind=kind or self._trace.SpanKind.INTERNAL,
                attributes=attributes,
                links=links,
                start_time=round(began_ms * 1_000_000),
            )
        finally:
            self._chosen.ids.chosen = None
        if error is not None:
            self._fail(span, error, ended_ns)
        span.end(end_time=ended_ns)

    def _fail(self, span: Any, error: BaseException, at_ns: int | None = None) -> None:
        if span.is_recording():
            span.record_exception(error, timestamp=at_ns)
            status = self._trace.Status(
                self._trace.StatusCode.ERROR, f"{type(error).__name__}: {error}"[:500]
            )
            span.set_status(status)

    def _known(self, root: Promise, workflow: str) -> tuple[Any, Any, Any, Any]:
        """Of an execution: the context above it, its caller, itself, and the context below it."""
        known = self._executions.get(root.id)
        if known is None:
            above = self._extract(root.param.headers)
            caller = self._trace.get_current_span(above).get_span_context()
            mine = self._execution_context(above, root.id, workflow)
            below = self._trace.set_span_in_context(self._trace.NonRecordingSpan(mine), above)
            known = self._executions[root.id] = (above, caller, mine, below)
            while len(self._executions) > executions_max:
                self._executions.popitem(last=False)
        return known

    def _execution_context(self, above: Any, execution_id: str, workflow: str) -> Any:
        """The span of an execution, as all processes know it."""
        caller = self._trace.get_current_span(above).get_span_context()
        if caller.is_valid:
            return self._context_of(caller, _span_id(f"execution {execution_id}"))
        trace_id = _trace_id(execution_id)
        sampler = getattr(self._our_tracer(), "sampler", None)
        sampled = True
        if sampler is not None:
            sampled = sampler.should_sample(None, trace_id, f"workflow {workflow}").decision.is_sampled()
        flags = self._trace.TraceFlags(1 if sampled else 0)
        return self._trace.SpanContext(trace_id, _span_id(f"execution {execution_id}"), True, flags)

    def _context_of(self, other: Any, span_id: int) -> Any:
        return self._trace.SpanContext(other.trace_id, span_id, True, other.trace_flags, other.trace_state)

    def _extract(self, headers: Mapping[str, str] | None) -> Any:
        """An empty context, or what the headers say: never what happens to be current in a worker."""
        context = self._context.Context()
        for propagator in self._propagators if headers else ():
            context = propagator.extract(headers, context)
        return context

    def _inject(self, headers: dict[str, str], context: Any) -> None:
        for propagator in self._propagators:
            propagator.inject(headers, context)

    def _our_tracer(self) -> Any:
        """Whoever sets the global provider, or adds an exporter to it, may do so after `app.use`. Until then
        nobody would see a span, so none is made (`_records`); the context travels all the same. Starts and
        claims look for it, steps do not: while there is none, the API reads the environment each time."""
        provider = self._provider or self._trace.get_tracer_provider()
        if provider is not self._traced_by:
            self._traced_by = provider
            self._tracer = provider.get_tracer(NAME)
            silent = self._trace.ProxyTracerProvider, self._trace.NoOpTracerProvider
            self._is_live = not isinstance(provider, silent)
            if self._is_live and hasattr(self._tracer, "id_generator"):
                self._tracer.id_generator = self._chosen.instead_of(self._tracer.id_generator)
        records = self._is_live and _has_processors(provider)
        if records is not self._records:
            self._records = records
            for middlewares in self._apps:
                middlewares.set_active(self._around_step, is_active=records)
        return self._tracer


def _has_processors(provider: Any) -> bool:
    """The SDK's provider hands its spans to processors. Of other providers nothing is known."""
    processor = getattr(provider, "_active_span_processor", None)
    return bool(getattr(processor, "_span_processors", True))


class _ChosenIds:
    """Ids for the spans that are told afterwards; all others are the generator's. One for a tracer."""

    def __init__(self) -> None:
        self.ids = local()
        self._generator: Any = None

    def instead_of(self, generator: Any) -> "_ChosenIds":
        self._generator = generator
        return self

    def generate_trace_id(self) -> int:
        chosen: tuple[int, int] | None = getattr(self.ids, "chosen", None)
        found: int = self._generator.generate_trace_id() if chosen is None else chosen[0]
        return found

    def generate_span_id(self) -> int:
        chosen: tuple[int, int] | None = getattr(self.ids, "chosen", None)
        found: int = self._generator.generate_span_id() if chosen is None else chosen[1]
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generator, name)


def _span_id(durable_id: str) -> int:
    return int.from_bytes(blake2b(durable_id.encode(), digest_size=8, person=b"span").digest()) or 1


def _trace_id(durable_id: str) -> int:
    return int.from_bytes(blake2b(durable_id.encode(), digest_size=16, person=b"trace").digest()) or 1
