"""A name for Django's admin and its permissions. Nothing is stored: executions are the node's records."""

from typing import Any

from holdfast.ext.optional import load

_models: Any = load("django.db.models")


class Execution(_models.Model):  # type: ignore[misc]
    """Read through `app.find`, never from a table. Who has the permission to view it sees the admin page."""

    id = _models.TextField(primary_key=True)

    class Meta:
        app_label = "holdfast"
        managed = False
        default_permissions = ("view",)
        verbose_name_plural = "executions"
