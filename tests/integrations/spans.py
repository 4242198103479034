"""Spans as plain data: from the SDK's in-memory exporter, or from the files that several processes wrote."""

import importlib
import json
from pathlib import Path
from typing import Any, NamedTuple


class Span(NamedTuple):
    name: str
    trace: str
    id: str
    parent: str | None
    began: int
    ended: int
    status: str
    links: list[str]
    attributes: dict[str, Any]


def plain(span: Any) -> Span:
    return Span(
        span.name,
        f"{span.context.trace_id:032x}",
        f"{span.context.span_id:016x}",
        None if span.parent is None else f"{span.parent.span_id:016x}",
        span.start_time,
        span.end_time,
        span.status.status_code.name,
        [f"{link.context.span_id:016x}" for link in span.links],
        dict(span.attributes),
    )


class FileExporter:
    """A line a span, on disk before the next instruction: what a killed process has told stays told."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def export(self, spans: Any) -> Any:
        with self._path.open("a", encoding="utf-8") as file:
            for span in spans:
                file.write(json.dumps(plain(span)._asdict()) + "\n")
        return importlib.import_module("opentelemetry.sdk.trace.export").SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass

    def force_flush(self, timeout_millis: int = 0) -> bool:
        return True


def provider(exporter: Any, **options: Any) -> Any:
    made = importlib.import_module("opentelemetry.sdk.trace").TracerProvider(**options)
    processor = importlib.import_module("opentelemetry.sdk.trace.export").SimpleSpanProcessor(exporter)
    made.add_span_processor(processor)
    return made


def in_memory() -> Any:
    module = "opentelemetry.sdk.trace.export.in_memory_span_exporter"
    return importlib.import_module(module).InMemorySpanExporter()


def finished(exporter: Any) -> list[Span]:
    return [plain(span) for span in exporter.get_finished_spans()]


def read(path: Path) -> list[Span]:
    return [Span(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def tree(spans: list[Span]) -> list[tuple[str, str | None]]:
    """Each span with the name of its parent, in order."""
    names = {span.id: span.name for span in spans}
    return sorted(
        ((span.name, None if span.parent is None else names.get(span.parent, "?")) for span in spans),
        key=str,
    )
