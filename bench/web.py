"""A FastAPI endpoint that starts a workflow durably, against one that inserts one row and commits.

Both are behind uvicorn in a process of their own, on a SQLite file whose commits are synced (WAL,
synchronous=FULL); 64 connections ask one after the other. The row is inserted with SQLAlchemy, a session for
each request, as its documentation has it. They are measured in turns; the ratio is that of medians. Run it
with `make bench-web`, which installs the frameworks.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.table import Row, print_table

ROOT = Path(__file__).parent.parent
connections = 64
ratio_min = 1.5


def starting(folder: str) -> Any:
    """The endpoint of ours. Workers are elsewhere: what is measured is the start."""
    import holdfast as hf
    from holdfast.ext.fastapi import lifespan, router

    app = hf.App(f"sqlite:///{folder}/holdfast.db", worker=False)

    @app.workflow
    async def order(item: str) -> str:
        return item

    api = importlib.import_module("fastapi").FastAPI(lifespan=lifespan(app))
    api.include_router(router(app, [order]))
    return api


def inserting(folder: str) -> Any:
    """The endpoint that one would write without us."""
    fastapi: Any = importlib.import_module("fastapi")
    alchemy: Any = importlib.import_module("sqlalchemy")
    orm: Any = importlib.import_module("sqlalchemy.orm")
    engine = alchemy.create_engine(f"sqlite:///{folder}/orders.db", connect_args={"timeout": 60})

    def prepare(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")

    alchemy.event.listen(engine, "connect", prepare)
    metadata = alchemy.MetaData()
    orders = alchemy.Table(
        "orders",
        metadata,
        alchemy.Column("id", alchemy.Integer, primary_key=True),
        alchemy.Column("item", alchemy.Text),
    )
    metadata.create_all(engine)
    api = fastapi.FastAPI()

    def order(item: str = fastapi.Body(embed=True)) -> dict[str, Any]:
        with orm.Session(engine) as session:
            done = session.execute(orders.insert().values(item=item))
            session.commit()
            return {"id": done.inserted_primary_key[0]}

    order.__annotations__ = {"item": str}
    api.add_api_route("/order", order, methods=["POST"], status_code=202)
    return api


def application() -> Any:
    make = {"start": starting, "insert": inserting}[os.environ["BENCH_KIND"]]
    return make(os.environ["BENCH_FOLDER"])


async def ask_again_and_again(port: int, until_s: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"item": "tea"}).encode()
    head = "POST /order HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    head += f"content-length: {len(body)}\r\n\r\n"
    count = 0
    try:
        while time.perf_counter() < until_s:
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 202"), answer
            length = next(
                line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:")
            )
            await reader.readexactly(int(length.partition(b":")[2]))
            count += 1
    finally:
        writer.close()
    return count


async def load(port: int, seconds: float) -> float:
    began_s = time.perf_counter()
    counts = await asyncio.gather(*(ask_again_and_again(port, began_s + seconds) for _ in range(connections)))
    return sum(counts) / (time.perf_counter() - began_s)


def measure(kind: str, seconds: float) -> float:
    """Requests a second."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "uvicorn", "--factory", "bench.web:application", f"--port={port}"]
        more = {"BENCH_KIND": kind, "BENCH_FOLDER": folder}
        process = subprocess.Popen([*command, "--log-level=warning"], cwd=ROOT, env=os.environ | more)
        try:
            until_s = time.monotonic() + 60
            while socket.socket().connect_ex(("127.0.0.1", port)) and time.monotonic() < until_s:
                time.sleep(0.05)
            asyncio.run(load(port, seconds / 4))  # warm
            return asyncio.run(load(port, seconds))
        finally:
            process.terminate()
            process.wait(60)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    arguments = parser.parse_args()
    found: dict[str, list[float]] = {"start": [], "insert": []}
    for _ in range(arguments.rounds):
        for kind, rates in found.items():
            rates.append(measure(kind, arguments.seconds))
    start, insert = median(found["start"]), median(found["insert"])
    ratio = start / insert
    print_table(
        f"FastAPI, {connections} connections: start {start:,.0f} a second, insert {insert:,.0f} a second",
        [Row("start durably / insert and commit", f"{ratio:.2f}x", f"{ratio_min}x", ratio >= ratio_min)],
    )


if __name__ == "__main__":
    main()
