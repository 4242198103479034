"""Django: an installed app, `manage.py holdfast worker`, starts inside `transaction.atomic`, URLs, admin.

    INSTALLED_APPS = [..., "holdfast.ext.django"]
    HOLDFAST_APP = "shop.durable:app"                    # where your App is
    HOLDFAST_CONSOLE_URL = "https://ops.example.org"     # optional: what admin pages link to

| file | what it owns |
|---|---|
| `project.py` | the settings: which App, which database, where the console is |
| `transactions.py` | starting and sending with a transaction of Django's |
| `endpoints.py` | URL patterns for workflows |
| `apps.py`, `models.py`, `admin.py` | what Django itself asks for: the installed app, a page of executions |

It needs no migrations: the node makes its own tables. Importing this module imports no models.
"""

from holdfast.ext.django.endpoints import urls
from holdfast.ext.django.project import console_url, database_url, get_app
from holdfast.ext.django.transactions import on_commit, open_transaction

__all__ = ["console_url", "database_url", "get_app", "on_commit", "open_transaction", "urls"]
