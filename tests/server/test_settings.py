"""Defaults < holdfast.toml < HOLDFAST_* < flags; bad values say what is wrong with them."""

import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.server import SETTINGS, Settings, load_settings, running
from holdfast.server.errors import OpenToTheWorld, SettingsError
from holdfast.store import open_store
from holdfast.store.urls import UnknownStore


def test_each_source_overrides_the_one_before(tmp_path: Path) -> None:
    toml = tmp_path / "holdfast.toml"
    toml.write_text('[server]\nport = 1\nhost = "from-toml"\nstore = "memory:"\ntokens = ["aaaaaaaa"]\n')
    env = {"HOLDFAST_PORT": "2", "HOLDFAST_HOST": "from-env", "HOLDFAST_DEBUG": "true", "HOLDFAST_URL": "x"}
    settings = load_settings({"port": 3, "host": None}, env, toml)
    assert (settings.port, settings.host, settings.store) == (3, "from-env", "memory:")
    assert settings.debug
    assert settings.tokens == ("aaaaaaaa",)
    assert settings.body_bytes_max == 4_194_304


@pytest.mark.parametrize(
    ("text", "meant"), [("yes", True), ("On", True), ("1", True), ("no", False), ("OFF", False)]
)
def test_yes_and_no_are_understood_alike(text: str, meant: bool) -> None:
    assert load_settings({}, {"HOLDFAST_METRICS": text}, os.devnull).metrics is meant


@pytest.mark.parametrize("text", ["[sever]\nport = 1\n", "port = 1\n[server]\n"])
def test_what_stands_in_no_table_that_is_known_is_not_ignored(tmp_path: Path, text: str) -> None:
    toml = tmp_path / "holdfast.toml"
    toml.write_text(text)
    with pytest.raises(SettingsError, match=r"\[server\]"):
        load_settings({}, {}, toml)


def test_a_list_may_be_one_text_with_commas() -> None:
    settings = load_settings(
        {"push_ports": "80, 8080"}, {"HOLDFAST_PUSH_HOSTS": "a.example, *.b.example"}, os.devnull
    )
    assert settings.push_hosts == ("a.example", "*.b.example")
    assert settings.push_ports == (80, 8080)


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        ({"port": "eighty"}, "--port"),
        ({"port": 70_000}, "65535"),
        ({"jwt_leeway_s": 31}, "30"),
        ({"stream_s": 300}, "270"),
        ({"debug": "perhaps"}, "--debug"),
        ({"log_level": "loud"}, "--log-level"),
        ({"body_bytes_max": 1}, "1024"),
    ],
)
def test_a_bad_value_names_its_source_its_bound_and_its_meaning(flags: dict[str, Any], part: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(flags, {}, os.devnull)
    assert part in str(caught.value)
    assert "[HF3201]" in str(caught.value)
    assert "It means:" in str(caught.value)


def test_a_misspelt_setting_in_the_file_is_an_error(tmp_path: Path) -> None:
    toml = tmp_path / "holdfast.toml"
    toml.write_text("[server]\nprot = 1\n")
    with pytest.raises(SettingsError, match="no setting 'prot'"):
        load_settings({}, {}, toml)
    toml.write_text("[server")
    with pytest.raises(SettingsError, match="not TOML"):
        load_settings({}, {}, toml)
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings({}, {}, tmp_path / "absent.toml")


def test_a_secret_is_not_repeated_in_an_error() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"tokens": [["CANARY"]]}, {}, os.devnull)
    assert "CANARY" not in str(caught.value)


def test_every_setting_has_a_line_of_help() -> None:
    assert {setting.name for setting in SETTINGS} == set(Settings.__struct_fields__)
    for setting in SETTINGS:
        assert setting.help
        assert "\n" not in setting.help
        assert len(setting.help) < 90


async def test_listening_beyond_the_machine_needs_auth_or_plain_words() -> None:
    with pytest.raises(OpenToTheWorld, match="HF3202"):
        async with running(Settings(host="0.0.0.0", port=0, store="memory:")):
            pass
    for settings in (
        Settings(host="0.0.0.0", port=0, store="memory:", allow_unauthenticated=True),
        Settings(host="0.0.0.0", port=0, store="memory:", tokens=("secret-1",)),
    ):
        async with running(settings) as server:
            assert server.url.startswith("http://127.0.0.1:")


async def test_a_port_that_is_taken_is_a_clear_error() -> None:
    async with running(Settings(port=0, store="memory:")) as server:
        port = int(server.url.rsplit(":", 1)[1])
        with pytest.raises(SettingsError, match="Cannot listen on"):
            async with running(Settings(port=port, store="memory:")):
                pass


@pytest.mark.parametrize("url", ["", "holdfast.db", "sqlite://", "sqlite:///", "mysql://u:CANARY@h/d"])
def test_a_url_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(UnknownStore) as caught:
        open_store(url)
    assert "CANARY" not in str(caught.value)


def test_the_page_about_the_server_lists_every_setting_as_it_is() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "server.md").read_text("utf-8")
    listed = [
        line.split(" | ") for line in page.splitlines() if line.startswith("| `") and line.count(" | ") == 2
    ]
    assert [
        (name.strip("| `"), meaning.removesuffix(" |")) for name, _, meaning in listed if "/" not in name
    ] == [(setting.name, setting.help) for setting in SETTINGS]


def test_the_page_about_errors_lists_every_code_of_the_server() -> None:
    from holdfast.protocol.errors import HoldfastError
    from holdfast.server import errors

    page = (Path(__file__).parents[2] / "docs" / "errors.md").read_text("utf-8")
    for found in vars(errors).values():
        if isinstance(found, type) and issubclass(found, HoldfastError) and found.code.startswith("HF3"):
            assert f"| {found.code} |" in page


def test_half_a_character_is_no_setting() -> None:
    with pytest.raises(SettingsError, match="HOLDFAST_HEADER_BYTES_MAX"):
        load_settings({}, {"HOLDFAST_HEADER_BYTES_MAX": "\ud800"}, None)


@pytest.mark.parametrize("name", ["tokens", "token_file", "jwt_key"])
def test_an_empty_list_of_tokens_is_a_mistake(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=f"HOLDFAST_{name.upper()} is empty"):
        load_settings({}, {f"HOLDFAST_{name.upper()}": ""})
    with pytest.raises(SettingsError, match="is empty"):
        load_settings({name: ""}, {})
    (tmp_path / "holdfast.toml").write_text(f"[server]\n{name} = {'[]' if name == 'tokens' else repr('')}\n")
    with pytest.raises(SettingsError, match="is empty"):
        load_settings({}, {}, tmp_path / "holdfast.toml")
