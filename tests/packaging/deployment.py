"""Reading the files in deploy/ and .github/, and comparing them with what there is.

They cannot be run here. But every flag, setting, port, path and metric that they name must exist, and what
stops must be given the time it takes.
"""

import re
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import yaml

from holdfast.cli import serve as serve_command, worker as worker_command
from holdfast.cli.main import COMMANDS
from holdfast.client import ask
from holdfast.node.node import Node
from holdfast.protocol.durations import duration_ms
from holdfast.protocol.requests import PromiseCreate
from holdfast.server import SETTINGS, Settings, load_settings
from holdfast.server.metrics import Metrics, expose
from holdfast.store import open_store

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
# What a worker or a client reads from the environment, beside the settings of a server.
CLIENT_VARIABLES = {"HOLDFAST_URL", "HOLDFAST_TOKEN", "HOLDFAST_CLIENT_CERT", "HOLDFAST_CLIENT_KEY"}
VARIABLES = {setting.variable for setting in SETTINGS} | CLIENT_VARIABLES


def documents(path: Path) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all(path.read_text("utf-8"))]


def kubernetes_objects(kind: str) -> dict[str, dict[str, Any]]:
    every = [each for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")) for each in documents(path)]
    return {each["metadata"]["name"]: each for each in every if each.get("kind") == kind}


def compose() -> dict[str, Any]:
    [whole] = documents(DEPLOY / "compose.yaml")
    return whole


def parse_words(words: list[str]) -> tuple[str, Any]:
    """As the console would; a word that it does not know ends the test."""
    name, *rest = words
    assert name in COMMANDS
    parser = ArgumentParser(exit_on_error=False)
    {"serve": serve_command, "worker": worker_command}[name].configure(parser)
    return name, parser.parse_args(rest)


def check_variables(names: list[str]) -> None:
    assert [name for name in names if name.startswith("HOLDFAST_") and name not in VARIABLES] == []


def check_server(words: list[str], env: dict[str, str]) -> Settings:
    """Its settings, which must be such that it starts: nobody comes in without a token."""
    _, arguments = parse_words(words)
    settings = load_settings(serve_command.given(arguments), env, None)
    assert settings.host == "0.0.0.0"
    assert settings.tokens or settings.token_file
    return settings


def stop_s(settings: Settings) -> float:
    """What was accepted, then the store."""
    return 2 * settings.stop_timeout_s


def worker_stop_s(words: list[str]) -> float:
    _, arguments = parse_words(words)
    assert arguments.drain is not None
    return (duration_ms(arguments.grace) + duration_ms(arguments.drain)) / 1000


async def exposed() -> dict[str, set[str]]:
    """Every metric that a node shows, with its labels. What comes into being by use is used once."""
    metrics = Metrics()
    metrics.count_requests("promise.get", 200, 0.001)
    metrics.count_refused("HF3007")
    metrics.count_delivery("execute", "stream", "sent")
    async with Node(open_store("memory:")) as node:
        await node.request([_task()])
        text = (await expose(metrics, node, 1, node.now())).decode()
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^(holdfast_\w+)(?:\{(.*)\})? ", text, re.M):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def _task() -> Any:
    return ask(PromiseCreate("one", timeout_at=2**50, tags={"resonate:target": "poll://any@default"}))
