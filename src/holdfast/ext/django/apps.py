"""The installed app: when Django is ready, it imports the modules `workflows` and `tasks` of all others.

`manage.py migrate` also brings the node's own tables up to date, if the App keeps them in the database that
is migrated. So the App can be opened inside a transaction later: that needs no lock.
"""

import asyncio
from typing import Any

from holdfast.ext.django.project import database_url, get_app
from holdfast.ext.optional import load
from holdfast.payloads.errors import BadSetting
from holdfast.store.urls import open_store

_AppConfig: Any = load("django.apps").AppConfig


class HoldfastConfig(_AppConfig):  # type: ignore[misc]
    name = "holdfast.ext.django"
    label = "holdfast"
    verbose_name = "Holdfast"

    def ready(self) -> None:
        """So that a worker knows every workflow and task, wherever in the project it is declared."""
        load("django.utils.module_loading").autodiscover_modules("workflows", "tasks")
        load("django.db.models.signals").post_migrate.connect(_make_tables, sender=self)


def _make_tables(using: str = "default", **_: Any) -> None:
    """Not in the database of tests, which has another name: there a World keeps its records in memory."""
    url = get_app().settings.url
    try:
        if url != database_url(using):
            return
    except BadSetting:  # a database that we cannot use
        return

    async def make() -> None:
        store = open_store(url)
        await store.open()
        await store.close()

    asyncio.run(make())
