"""The units: accepted by systemd, with flags and settings that there are."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli import serve as serve_command
from holdfast.server import load_settings
from tests.packaging.deployment import (
    DEPLOY,
    check_variables,
    parse_words,
    stop_s,
    worker_stop_s,
)


def unit(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "systemd" / name).read_text("utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


UNITS = ("holdfast.service", "holdfast-worker@.service")


@pytest.mark.parametrize("name", UNITS)
def test_systemd_accepts_the_units(name: str, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd is not installed here")
    own = tmp_path / name.replace("@", "@shop")
    text = (DEPLOY / "systemd" / name).read_text("utf-8")
    own.write_text(
        text.replace("/opt/holdfast/bin/holdfast", str(Path(sys.executable).with_name("holdfast")))
    )
    done = subprocess.run([analyze, "verify", str(own)], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if own.name in line] == []
    assert done.returncode == 0, done.stderr


def test_the_units_have_flags_settings_and_the_time_to_stop() -> None:
    node, worker = (unit(name) for name in UNITS)
    check_variables([each.partition("=")[0] for each in node["Environment"]])
    _, *words = shlex.split(node["ExecStart"][0])
    _, arguments = parse_words(words)
    env = dict(each.split("=", 1) for each in node["Environment"])
    settings = load_settings(serve_command.given(arguments), env, None)
    [folder] = node["StateDirectory"]
    assert settings.store.startswith(f"sqlite:////var/lib/{folder}/")
    assert float(node["TimeoutStopSec"][0]) > stop_s(settings)
    assert int(node["LimitNOFILE"][0]) > settings.connections_max + 1_000
    _, *words = shlex.split(worker["ExecStart"][0])
    assert float(worker["TimeoutStopSec"][0]) > worker_stop_s(words)
