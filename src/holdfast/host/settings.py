"""The settings of a session: from the App's arguments, the command line, or the parent of a child process.

A function in a process of its own may send and start, with the app that its module declares. There the app
does not become a second worker, which would claim what it cannot finish: it asks the node that the parent
works with, wherever the parent was told to find it, and keeps no timers for it.

An app is known again by the URL that its code gives. One with another URL is another app, and keeps it.
"""

import os
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any, Final, Literal, cast
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from holdfast.client.tls import Certificate
from holdfast.host.slots import TaskSettings
from holdfast.jobs.findings import read_options
from holdfast.payloads.durations import Duration, seconds
from holdfast.payloads.errors import BadSetting, ForgottenWorld, OutOfReach, StartedByImport
from holdfast.payloads.payloads import Codec
from holdfast.protocol import limits
from holdfast.protocol.address import is_pushed_to, parse_address, target_of
from holdfast.protocol.text import hide_password
from holdfast.steps import child
from holdfast.steps.child import AppLocation
from holdfast.store.urls import file_of, is_missing
from holdfast.workflow.generations import read_keep

Orphans = Literal["keep", "remove"]
ORPHANS: Final = ("keep", "remove")
default_url: Final = "sqlite:///holdfast.db"
default_lease_s: Final = 20.0
default_concurrency: Final = 100
far_schemes: Final = ("http://", "https://", "postgresql://", "postgres://")
lease_s_min: Final = 0.1  # with less, it is over before a heartbeat can be answered


class SessionSettings(Struct, frozen=True):
    url: str
    group: str
    worker: bool
    concurrency: int
    lease_s: float
    token: str | None
    certificate: Certificate
    codec: Codec | None
    grace_s: float = 10.0  # for running steps, when it is closed
    tasks: TaskSettings = TaskSettings()
    retention_s: float | None = None
    declared_url: str = ""  # what the code says, whatever a console said after that
    is_in_child: bool = False
    removes_orphans: bool = False  # schedules that the app does not declare any more
    keep_generations: int = 0
    is_url_default: bool = False  # neither the code nor the environment names one
    is_pushed: bool = False  # it runs the executions that are pushed to it

    def __post_init__(self) -> None:
        _concurrency(self.concurrency)
        _lease_s(self.lease_s)
        _group(self.group)


def _concurrency(given: Any) -> int:
    if type(given) is not int or given < 1:
        raise BadSetting(f"concurrency must be a number of at least 1, not {given!r}")
    return given


def _lease_s(lease: Duration | None) -> float:
    lease_s, lease_s_max = seconds("lease", lease), limits.ttl_ms_max / 1000
    if lease_s is None or not lease_s_min <= lease_s <= lease_s_max:
        raise BadSetting(f"lease must be {lease_s_min:g} to {lease_s_max:g} seconds, not {lease!r}")
    return lease_s


def _group(given: Any) -> str:
    try:
        fits = isinstance(given, str) and ("/" not in given or is_pushed_to(given))
        parse_address(target_of(given) if fits else "")
    except ValueError:
        fits = False
    if not fits:
        raise BadSetting(
            f"group must be a string without '/' and '@', or the URL of a push endpoint, not {given!r}"
        )
    return str(given)


def _removes_orphans(given: Any) -> bool:
    if given not in ORPHANS:
        raise BadSetting(f"orphan_schedules must be one of {', '.join(ORPHANS)}, not {given!r}")
    return bool(given == "remove")


_readers: Final[dict[str, Callable[[Any], Any]]] = {
    "concurrency": _concurrency,
    "lease": _lease_s,
    "group": _group,
    "retention": partial(seconds, "retention"),
    "orphan_schedules": _removes_orphans,
    "keep_generations": read_keep,
}


def declare_settings(
    url: str | None,
    worker: bool,
    token: str | None,
    certificate: Certificate,
    codec: Codec | None,
    **given: Any,
) -> SessionSettings:
    """As an App is given them; what is not comes from the environment. `given` has those of `_readers`."""
    if not isinstance(cast(object, url), str | None):
        raise BadSetting(f"url must be a string such as 'sqlite:///holdfast.db', not {url!r}")
    named_url = url or os.environ.get("HOLDFAST_URL")
    url = named_url or default_url
    read = read_options("an App", given, _readers)
    concurrency = read.get("concurrency", default_concurrency)
    return SessionSettings(
        url=url,
        declared_url=url,
        group=read.get("group", "default"),
        worker=worker,
        concurrency=concurrency,
        lease_s=read.get("lease", default_lease_s),
        token=token or os.environ.get("HOLDFAST_TOKEN"),
        certificate=certificate,
        codec=codec,
        tasks=TaskSettings(concurrency=concurrency),
        retention_s=read.get("retention"),
        removes_orphans=read.get("orphan_schedules", False),
        keep_generations=read.get("keep_generations", 0) or 0,
        is_url_default=not named_url,
    )


def hidden_group(group: str) -> str:
    """The group in which a process hears messages for itself: that of its workers, or one made of a URL."""
    return f"push-{blake2b(group.encode(), digest_size=8).hexdigest()}" if is_pushed_to(group) else group


def app_location(settings: SessionSettings) -> AppLocation:
    """For the children of a session that works with these settings."""
    url: str | None = settings.url
    file = file_of(settings.url)
    if file is not None:
        url = f"sqlite:///{quote(str(file.absolute()))}"
    elif not settings.url.startswith(far_schemes):
        url = None
    return AppLocation(settings.declared_url, url, settings.token)


class TestUnderWay:
    """The test that pytest runs in this process, if any: see `holdfast.testing.plugin`."""

    name: str | None = None


def settings_here(settings: SessionSettings) -> SessionSettings:
    """Those of an app that opens in this process. Raises OutOfReach, StartedByImport, ForgottenWorld."""
    if TestUnderWay.name is not None and settings.is_url_default and settings.url == default_url:
        # Each run would find what the last one left, and hf.sleep would take as long as it says.
        raise ForgottenWorld(f"{TestUnderWay.name} opened an app on ./holdfast.db, its default")
    if not child.is_child():
        return settings
    if (importing := child.importing()) is not None:  # each child would start what starts the next child
        raise StartedByImport(f"{importing} uses its app while a child process imports it")
    way = child.app_location()
    if way is None or way.declared_url != settings.declared_url:
        way = app_location(settings)
        if is_missing(settings.url):  # a file in a new folder for each process, say: never found again
            raise OutOfReach(f"This child process found no store at {hide_password(settings.url)}")
    if way.url is None:
        raise OutOfReach(
            "The app keeps everything in the memory of its own process, which this child process cannot reach"
        )
    return replace(settings, url=way.url, token=way.token, worker=False, retention_s=None, is_in_child=True)
