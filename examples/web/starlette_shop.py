"""Starlette: start a report, wait for it or look at it later.

uvicorn examples.web.starlette_shop:asgi
curl -H 'prefer: wait=10' --json '{"year": 2026}' localhost:8000/report
"""

from starlette.applications import Starlette

import holdfast as hf
from holdfast.ext.starlette import exception_handlers, lifespan, routes

app = hf.App()


def count_orders(month: int) -> int:
    return 100 + month


@app.workflow
async def report(year: int) -> str:
    """Twelve steps at once; a crash repeats none that is done."""
    counts = await hf.gather(*(hf.run(count_orders, month) for month in range(1, 13)))
    return f"{sum(counts)} orders in {year}"


asgi = Starlette(
    routes=routes(app, [report]), lifespan=lifespan(app), exception_handlers=exception_handlers()
)
