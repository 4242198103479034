"""What an operator may choose. Defaults < `holdfast.toml` ([server]) < `HOLDFAST_*` < flags.

Each setting is declared once, with its type, its default, its bounds and the line that `--help` shows.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from holdfast.protocol import limits
from holdfast.protocol.durations import duration_ms
from holdfast.server.errors import SettingsError

environment_prefix: Final = "HOLDFAST_"
toml_table: Final = "server"
toml_name: Final = "holdfast.toml"
retention_ms_min: Final = 1_000
who_may_come_in: Final = ("tokens", "token_file", "jwt_key")

Texts = tuple[str, ...]


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: Annotated[str, Meta(description="address to listen on")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535, description="port to listen on; 0 takes a free one")] = 8001
    store: Annotated[
        str, Meta(description="where records are kept: sqlite:///path, postgresql://... or memory:")
    ] = "sqlite:///holdfast.db"
    processes: Annotated[
        int,
        Meta(ge=0, le=64, description="node processes behind the port, on PostgreSQL; 0: one for each core"),
    ] = 1
    debug: Annotated[
        bool, Meta(description="allow debug.* requests and the debug clock; never in production")
    ] = False
    public_url: Annotated[
        str,
        Meta(
            description="URL by which workers and browsers reach this server; sent to workers with each task"
        ),
    ] = ""
    retry_ms: Annotated[
        int,
        Meta(ge=1, description="ms after which a task that nobody took is offered again; the pause grows"),
    ] = limits.retry_ms
    retention: Annotated[
        str, Meta(description="delete executions that ended longer ago than this, like 30d; empty: never")
    ] = ""
    always_200: Annotated[
        bool, Meta(description="answer every protocol reply with HTTP 200; its own status is in head.status")
    ] = False
    # Who may come in.
    tokens: Annotated[
        Texts,
        Meta(description="static tokens: 'TOKEN', or 'PREFIX TOKEN'; behind it 'read-only', 'name=NAME'"),
    ] = ()
    token_file: Annotated[str, Meta(description="file with one static token per line, as in tokens")] = ""
    jwt_key: Annotated[str, Meta(description="file with the PEM public key that signs JWT tokens")] = ""
    jwt_issuer: Annotated[str, Meta(description="the iss claim that a JWT must have")] = ""
    jwt_audience: Annotated[str, Meta(description="the aud claim that a JWT must have")] = ""
    jwt_leeway_s: Annotated[
        int, Meta(ge=0, le=30, description="seconds by which clocks may differ when a JWT is checked")
    ] = 10
    allow_unauthenticated: Annotated[
        bool, Meta(description="listen beyond this machine although no token and no JWT key is set")
    ] = False
    allowed_hosts: Annotated[
        Texts, Meta(description="further names in the Host header that are accepted on a loopback address")
    ] = ()
    allowed_origins: Annotated[
        Texts, Meta(description="origins of web pages that may call this server, like https://example.org")
    ] = ()
    ticket_key: Annotated[
        str,
        Meta(
            description="secret that signs tickets for event streams, the same on all nodes; empty: a new one"
        ),
    ] = ""
    tls_cert: Annotated[str, Meta(description="file with the PEM certificate chain; turns TLS on")] = ""
    tls_key: Annotated[str, Meta(description="file with the PEM private key of the certificate")] = ""
    tls_client_ca: Annotated[
        str, Meta(description="file with the PEM CA that must have signed the certificate of each client")
    ] = ""
    # How much at once.
    body_bytes_max: Annotated[int, Meta(ge=1_024, description="bytes in the body of a request")] = 4_194_304
    bodies_bytes_max: Annotated[
        int,
        Meta(ge=65_536, description="bytes of requests being read, and as many being answered; past it: 429"),
    ] = 33_554_432
    answers_bytes_max: Annotated[
        int,
        Meta(ge=65_536, description="bytes of answers that wait to be read; past it the slowest are dropped"),
    ] = 67_108_864
    header_bytes_max: Annotated[int, Meta(ge=1_024, description="bytes in the head of a request")] = 16_384
    connections_max: Annotated[int, Meta(ge=1, description="open connections, streams included")] = 12_000
    streams_max: Annotated[int, Meta(ge=1, description="open event streams")] = 10_000
    readers_max: Annotated[
        int,
        Meta(
            ge=1,
            description="event streams and questions that wait at /v1; half for one prefix; past it: 429",
        ),
    ] = 1_000
    requests_max: Annotated[
        int, Meta(ge=1, description="envelopes that may be in flight, or one array; past it: 429")
    ] = 4_096
    rate_limit: Annotated[
        float,
        Meta(
            ge=0,
            description="envelopes and /v1 requests a second, per token or address; past it: 429; 0: off",
        ),
    ] = 0.0
    stream_buffer_messages: Annotated[
        int, Meta(ge=1, le=10_000, description="messages that wait for one stream before others get them")
    ] = 100
    # How long.
    read_timeout_s: Annotated[
        float, Meta(gt=0, description="seconds in which a whole request must arrive")
    ] = 10.0
    idle_timeout_s: Annotated[float, Meta(gt=0, description="seconds an idle connection is kept open")] = 75.0
    stream_s: Annotated[
        float, Meta(gt=0, le=270, description="seconds after which a stream is ended, give or take a tenth")
    ] = 240.0
    stream_keep_alive_s: Annotated[float, Meta(gt=0, description="seconds between keep-alive comments")] = (
        15.0
    )
    stream_write_timeout_s: Annotated[
        float, Meta(gt=0, description="seconds after which a client that does not read is dropped")
    ] = 10.0
    stop_timeout_s: Annotated[
        float, Meta(gt=0, description="seconds to finish accepted work when stopping")
    ] = 10.0
    # Messages to HTTP addresses.
    push_hosts: Annotated[
        Texts, Meta(description="hosts that messages may be posted to (name, name:port or *.domain)")
    ] = ()
    push_private: Annotated[
        bool,
        Meta(description="also post to hosts of push_hosts that resolve to private or loopback addresses"),
    ] = False
    push_ports: Annotated[tuple[int, ...], Meta(description="ports that messages may be posted to")] = (
        80,
        443,
    )
    push_concurrency: Annotated[int, Meta(ge=1, description="posts at the same time")] = 64
    push_timeout_s: Annotated[float, Meta(gt=0, description="seconds for one post")] = 10.0
    push_token: Annotated[str, Meta(description="bearer token sent with posts to push_token_hosts")] = ""
    push_token_hosts: Annotated[
        Texts, Meta(description="hosts that get push_token; others never see it")
    ] = ()
    # Looking inside.
    console: Annotated[bool, Meta(description="serve the web console at /console")] = True
    codec_url: Annotated[
        str, Meta(description="address that the console asks to decode payloads; your keys stay there")
    ] = ""
    audit: Annotated[bool, Meta(description="log who changes what through /v1")] = True
    metrics: Annotated[bool, Meta(description="serve GET /metrics")] = True
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="lowest level that is logged")
    ] = "info"

    @property
    def retention_ms(self) -> int | None:
        if not self.retention:
            return None
        try:
            span = duration_ms(self.retention)
        except ValueError as error:
            raise SettingsError(f"retention: {error}.") from None
        if span < retention_ms_min:
            raise SettingsError(f"retention: {self.retention} is too short; the shortest is 1s.")
        return span


class Setting(Struct, frozen=True):
    """One setting, for whoever builds `--help` or a table of them."""

    name: str
    type: Any
    default: Any
    help: str

    @property
    def is_list(self) -> bool:
        return isinstance(self.default, tuple)

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return environment_prefix + self.name.upper()


def _declared() -> tuple[Setting, ...]:
    hints = get_type_hints(Settings, include_extras=True)
    found: list[Setting] = []
    for declared in msgspec.structs.fields(Settings):
        kind, *notes = get_args(hints[declared.name])
        [description] = [note.description for note in notes if isinstance(note, Meta)]
        found.append(Setting(declared.name, kind, declared.default, cast("str", description)))
    return tuple(found)


SETTINGS: Final = _declared()


def load_settings(
    flags: Mapping[str, Any], env: Mapping[str, str], toml_path: str | Path | None = None
) -> Settings:
    """Put the sources together. `flags` maps names of settings to values; None means not given.

    With no `toml_path`, `holdfast.toml` in the working directory is read if it is there.
    """
    given: dict[str, Any] = {}
    sources: dict[str, str] = {}
    known = {setting.name: setting for setting in SETTINGS}
    for name, value in _read_toml(toml_path).items():
        if name not in known:
            raise SettingsError(f"{toml_name}: there is no setting {name!r} in [{toml_table}].")
        given[name], sources[name] = value, f"{toml_name}: {name}"
    for setting in SETTINGS:
        text = env.get(setting.variable)
        if text is not None:
            given[setting.name], sources[setting.name] = _split(setting, text), setting.variable
        value = flags.get(setting.name)
        if value is not None:
            given[setting.name], sources[setting.name] = _split(setting, value), setting.flag
    checked: dict[str, Any] = {}
    for name, value in given.items():
        if name in who_may_come_in and not value:
            raise SettingsError(
                f"{sources[name]} is empty, which would let everybody in. Leave it out instead."
            )
        checked[name] = _check(known[name], value, sources[name])
    return Settings(**checked)


def _read_toml(path: str | Path | None) -> dict[str, Any]:
    file = Path(path if path is not None else toml_name)
    if path is None and not file.exists():
        return {}
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is not TOML: {error}.") from error
    for name in document:
        if name != toml_table:
            raise SettingsError(f"{file}: {name!r} is not known here. Settings go under [{toml_table}].")
    table = document.get(toml_table, {})
    if not isinstance(table, dict):
        raise SettingsError(f"{file}: [{toml_table}] must be a table.")
    return cast("dict[str, Any]", table)


_yes_or_no: Final = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


def _split(setting: Setting, value: Any) -> Any:
    """A list may be given as one text with commas."""
    if setting.is_list and isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if setting.type is bool and isinstance(value, str):
        return _yes_or_no.get(value.strip().lower(), value)
    return value


def _check(setting: Setting, value: Any, source: str) -> Any:
    hints = get_type_hints(Settings, include_extras=True)
    try:
        return msgspec.convert(value, hints[setting.name], strict=not isinstance(value, str | list))
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        secret = "token" in setting.name or setting.name == "ticket_key"
        shown = "" if secret else f" (it is {str(value)[:80]!r})"
        raise SettingsError(f"{source}: {error}{shown}. It means: {setting.help}.") from None
