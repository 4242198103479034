"""Connections to PostgreSQL through asyncpg, and what its errors mean for us."""

import importlib
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from holdfast.protocol.text import hide_password
from holdfast.store.interface import CannotOpen, StoreError, TookTooLong, search_ms_max
from holdfast.store.postgres_statements import (
    BEGIN,
    BEGIN_POOLED,
    BEGIN_SEARCH,
    END_SEARCH,
    INSIST_ON_SYNC,
    SETTINGS,
    UNDO_SEARCH,
)

connect_s_max: Final = 5.0

# Somebody else was faster, or waits for us while we wait for him: run again.
_CONFLICTS: Final = frozenset(
    {
        "23505",  # unique_violation: another node created the same id
        "40001",  # serialization_failure
        "40P01",  # deadlock_detected
        "55P03",  # lock_not_available
    }
)
# The server, or the way to it, is gone or not there yet.
_DISCONNECTS: Final = ("08", "57P", "53300", "25P03", "25006")


class MissingDriver(StoreError):
    """The PostgreSQL driver is not installed."""

    code = "HF2007"


class PoolerInTheWay(StoreError):
    """The URL leads to a transaction pooler and does not say so."""

    code = "HF2009"


def _driver() -> Any:
    try:
        return importlib.import_module("asyncpg")
    except ImportError:
        raise MissingDriver(
            "PostgreSQL needs a driver that is not installed. Run: pip install 'holdfast[postgres]' [HF2007]"
        ) from None


def _state(error: BaseException) -> str:
    state = getattr(error, "sqlstate", None)
    return state if isinstance(state, str) else ""


def is_conflict(error: BaseException) -> bool:
    # A plan that was prepared before the schema changed is refused once, then made anew.
    return _state(error) in _CONFLICTS or type(error).__name__ == "InvalidCachedStatementError"


async def fetch_in_time(connection: Any, statement: str, parameters: Sequence[Any]) -> Sequence[Any]:
    """End what takes too long: its transaction holds locks, and others wait for it. The rest stays."""
    await connection.execute(BEGIN_SEARCH)
    try:
        found: Sequence[Any] = await connection.fetch(statement, *parameters)
    except Exception as error:
        if _state(error) != "57014":  # query_canceled
            raise
        await connection.execute(UNDO_SEARCH)
        raise TookTooLong(search_ms_max) from None
    await connection.execute(END_SEARCH)
    return found


def is_disconnect(error: BaseException) -> bool:
    if _state(error).startswith(_DISCONNECTS):
        return True
    # The last is what asyncpg says when the server hung up in between, as it does to a node that stood still.
    names = ("InterfaceError", "ConnectionDoesNotExistError", "InternalClientError")
    return type(error).__name__ in names or isinstance(error, (OSError, TimeoutError))


def may_have_committed(error: BaseException) -> bool:
    """Of a statement that commits by itself. What the server refused has not happened, unless it was
    ending the connection: it may have been waiting for its replicas then."""
    return is_disconnect(error) and (not _state(error) or _state(error).startswith(("08", "57P")))


class Connector:
    """Makes connections that behave the same, whatever the server's own settings are.

    Of the URL's query, `prepared`, `listen` and `beside` are ours; the rest is the driver's or the server's.
    """

    def __init__(self, url: str) -> None:
        self._name = hide_password(url)
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise self.cannot_open(error) from None
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self._prepared = query.pop("prepared", "on") not in ("off", "false", "0", "no")
        listen = query.pop("listen", None)
        self.beside = query.pop("beside", "0") == "1"  # our tables may be made beside an application's
        self._url = urlunsplit(parts._replace(query=urlencode(query)))
        # LISTEN does not go through a pooler, and a session's settings must not be left in one.
        self._listen_url = listen or (self._url if self._prepared else None)
        self.begin = BEGIN if self._prepared else BEGIN_POOLED

    @property
    def is_pooled(self) -> bool:
        return not self._prepared

    @property
    def can_listen(self) -> bool:
        return self._listen_url is not None

    async def connect(self) -> Any:
        driver = _driver()
        if not self._prepared:
            return await driver.connect(self._url, statement_cache_size=0, timeout=connect_s_max)
        try:
            connection = await driver.connect(self._url, server_settings=SETTINGS, timeout=connect_s_max)
        except Exception as error:
            if "unsupported startup parameter" in str(error):
                raise PoolerInTheWay(
                    "Between this node and PostgreSQL is a pooler that takes no settings for a connection. "
                    f"Add prepared=off to the URL, and listen=URL of the server. [{PoolerInTheWay.code}]"
                ) from error
            raise
        try:
            await connection.execute(INSIST_ON_SYNC.format(local="false"))
        except BaseException:
            connection.terminate()
            raise
        return connection

    def cannot_open(self, error: Exception) -> CannotOpen:
        """Without what Python says about the URL, which may hold a part of the password."""
        if isinstance(error, ValueError) and not type(error).__module__.startswith("asyncpg"):
            reason = "the URL cannot be read; special characters in a password are written as %XX"
        elif isinstance(error, TimeoutError):
            reason = "it took too long"
        else:
            reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        return CannotOpen(
            f"{self._name} cannot be opened: {reason}. "
            f"Check the address, the user and that PostgreSQL is running there. [{CannotOpen.code}]"
        )

    async def connect_listener(self) -> Any:
        return await _driver().connect(self._listen_url, statement_cache_size=0, timeout=connect_s_max)
