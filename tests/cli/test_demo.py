"""The demo ends with a command to type: one that the shell knows from which the demo was started."""

import sys

import pytest

from holdfast.cli.demo import own_command


def test_whoever_came_by_uvx_is_told_to_use_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV", "/usr/bin/uv")
    monkeypatch.setattr(sys, "prefix", "/cache/uv/archive-v0/NQwtRWu70")
    assert own_command() == "uvx holdfast"


def test_whoever_ran_the_module_is_told_to_run_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setattr(sys, "argv", ["/somewhere/holdfast/__main__.py", "demo"])
    assert own_command() == f"{sys.executable} -m holdfast"


def test_a_program_that_is_not_on_the_path_is_named_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setattr(sys, "argv", ["/shop/.venv/bin/holdfast", "demo"])
    monkeypatch.setenv("PATH", "")
    assert own_command() == "/shop/.venv/bin/holdfast"
