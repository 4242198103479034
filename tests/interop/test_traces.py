"""The W3C context in the headers of promises, put there and read there by the official SDKs, unchanged.

Both directions in one trace: their program starts an execution of ours, which calls a function of theirs.
"""

import time
from typing import Any

from opentelemetry import baggage, trace

import holdfast as hf
from holdfast.ext.otel import OpenTelemetry
from tests.interop.programs import Program, Sdk, answer_s_max
from tests.processes import Server

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_a_trace_goes_from_their_program_through_our_workflow_to_their_function(
    sdk: Sdk, caller: Program, worker: Program, server: Server
) -> None:
    app = hf.App(server.url, group=f"traced-{sdk.name}")
    app.use(OpenTelemetry())

    def look() -> list[Any]:
        """A step, so that whatever it traces by itself belongs to the trace."""
        return [
            f"{trace.get_current_span().get_span_context().trace_id:032x}",
            baggage.get_baggage("customer"),
        ]

    @app.workflow
    async def order(a: int, b: int) -> list[Any]:
        add = hf.remote(
            "add", group=worker.group, returns=int, version=1
        )  # the Python SDK knows no newest one
        return [*await hf.run(look), await hf.call(add, a, b)]

    with app:
        started = caller.ask(
            "create",
            id=f"traced-{sdk.name}",
            func="order",
            args=[20, 22],
            target=f"poll://any@traced-{sdk.name}",
            headers={"traceparent": f"00-{TRACE}-{SPAN}-01", "baggage": "customer=ada"},
            timeout_at=round(time.time() * 1000) + 3_600_000,
        )
        handle = app.handle(started)
        assert handle.result(answer_s_max) == [TRACE, "ada", 42]
        [called] = [each.id for each in handle.steps() if each.kind == "call"]
        headers = caller.ask("headers", id=called)
    _, trace_id, span_id, flags = headers["traceparent"].split("-")
    assert (trace_id, flags) == (TRACE, "01")
    assert span_id != SPAN, "the caller of their function is our workflow, and not who started that"
    assert headers["baggage"] == "customer=ada"
