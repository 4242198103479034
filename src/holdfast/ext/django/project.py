"""What the settings of a Django project say: which App it has, where its database and the console are."""

import re
from importlib import import_module
from typing import Any
from urllib.parse import quote, urlencode

from holdfast.app import App
from holdfast.ext.optional import load
from holdfast.payloads.errors import BadSetting

_conf = load("django.conf")


def get_app() -> App:
    """The App that the setting HOLDFAST_APP names: `"shop.durable:app"`."""
    where = getattr(_conf.settings, "HOLDFAST_APP", None)
    if not isinstance(where, str) or where.count(":") != 1:
        raise BadSetting(f'HOLDFAST_APP must be a string like "shop.durable:app", not {where!r}')
    module, _, name = where.partition(":")
    found = getattr(import_module(module), name, None)
    if not isinstance(found, App):
        raise BadSetting(f"HOLDFAST_APP is {where!r}, which is not an App")
    return found


def console_url(execution_id: str | None = None) -> str | None:
    """The page of an execution in the console, or all of them; None if HOLDFAST_CONSOLE_URL is not set."""
    base = getattr(_conf.settings, "HOLDFAST_CONSOLE_URL", None)
    if not base:
        return None
    own = "" if execution_id is None else f"/{quote(execution_id, safe='')}"
    return f"{str(base).rstrip('/')}/console/#/executions{own}"


def database_url(using: str = "default") -> str:
    """The URL of a database of Django's, for `App(database_url())`: our tables are made beside Django's.

    Then a start or a send can be part of Django's own transaction: see `open_transaction`.
    """
    settings: dict[str, Any] = _conf.settings.DATABASES[using]
    engine, name = str(settings["ENGINE"]).rpartition(".")[2], str(settings.get("NAME") or "")
    if engine == "sqlite3" and name and not name.startswith(("file:", ":memory:")):
        return f"sqlite:///{quote(name)}?beside=1"
    if engine in ("postgresql", "postgis") and name:
        return _postgres_url(settings, name)
    raise BadSetting(
        f"The database {using!r} is {settings['ENGINE']} {name!r}, which is neither a SQLite file nor "
        "PostgreSQL: pass the App a URL"
    )


def _postgres_url(settings: dict[str, Any], name: str) -> str:
    user, password = (quote(str(settings.get(key) or ""), safe="") for key in ("USER", "PASSWORD"))
    host, port = str(settings.get("HOST") or ""), str(settings.get("PORT") or "")
    query: dict[str, str] = {"beside": "1"}
    if host.startswith("/"):  # the folder of a socket
        query, host = {"host": host, **query}, ""
        query |= {"port": port} if port else {}
    elif port:
        host = f"{host or 'localhost'}:{port}"
    more: dict[str, Any] = settings.get("OPTIONS") or {}
    options = str(more.get("options") or "")
    if (schema := re.search(r"-c\s*search_path=([^\s,]+)", options)) is not None:
        query["search_path"] = schema[1]  # where Django makes its tables
    who = f"{user}:{password}" if password else user
    at = "@" if who else ""
    return f"postgresql://{who}{at}{host}/{quote(name, safe='')}?{urlencode(query)}"
