"""The settings of an app: what could never run anything is refused when it is made."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.host.errors import AppError
from holdfast.payloads.errors import BadSetting


@pytest.mark.parametrize(
    "setting",
    [
        {"concurrency": 0},
        {"concurrency": -1},
        {"concurrency": "10"},
        {"concurrency": 1.5},
        {"lease": 0},
        {"lease": "1ms"},
        {"lease": "2d"},
        {"group": ""},
        {"group": "a/b"},
        {"group": "a@b"},
        {"group": None},
    ],
    ids=str,
)
def test_a_setting_with_which_nothing_would_run_is_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(BadSetting, match=rf"{next(iter(setting))} .*\[HF5211\]"):
        hf.App("memory:", **setting)


@pytest.mark.parametrize("setting", [{"concurrency": 1}, {"lease": "100ms"}, {"lease": "1d"}], ids=str)
def test_settings_at_their_limits_are_accepted(setting: dict[str, Any]) -> None:
    hf.App("memory:", **setting)


def test_a_setting_that_is_changed_later_is_checked_too() -> None:
    with pytest.raises(BadSetting, match="concurrency"):
        replace(hf.App("memory:").settings, concurrency=0)


@pytest.mark.parametrize("url", [5, Path("holdfast.db")], ids=str)
def test_a_url_that_is_no_string_is_refused(url: Any) -> None:
    with pytest.raises(BadSetting, match="url must be a string such as"):
        hf.App(url)


def test_an_app_that_is_not_open_has_no_session() -> None:
    with pytest.raises(AppError, match="The app is not open"):
        _ = hf.App("memory:").session
