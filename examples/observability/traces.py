"""One trace for an execution, whatever happens to its processes. A replay repeats no span.

Needs `pip install 'holdfast[otel]' opentelemetry-sdk`. In production, use BatchSpanProcessor and OTLP.
"""

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import holdfast as hf
from holdfast.ext.otel import OpenTelemetry

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))

app = hf.App()
app.use(OpenTelemetry(provider))
failures = [ConnectionError("the bank is away")]


@hf.step(retry=hf.Retry(attempts=3, delay="10ms"))
def charge(cents: int) -> int:
    if failures:
        raise failures.pop()
    return cents


@app.workflow
async def checkout(cents: int) -> int:
    paid = await charge(cents)
    await hf.sleep("10ms")
    return paid


if __name__ == "__main__":
    with app:
        checkout.start(500).result()
    for span in sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0):
        print(span.name, span.status.status_code.name)
