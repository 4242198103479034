"""Django: an order and its workflow in one transaction. A whole project in one file:

    python examples/web/django_shop.py migrate
    python examples/web/django_shop.py holdfast worker &
    python examples/web/django_shop.py runserver
    curl -X POST 'localhost:8000/orders?item=tea'

In a project of your own, models, workflows and settings have files of their own.
"""

import sys
from pathlib import Path
from typing import Any

import django
from django.conf import settings

sys.modules.setdefault("django_shop", sys.modules[__name__])  # so that the worker finds it by its name
if not settings.configured:
    settings.configure(
        ROOT_URLCONF="django_shop",
        SECRET_KEY="an example",
        ALLOWED_HOSTS=["*"],
        INSTALLED_APPS=["holdfast.ext.django"],
        DATABASES={
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(Path("shop.db").absolute())}
        },
        HOLDFAST_APP="django_shop:app",
    )

import holdfast as hf  # noqa: E402
from holdfast.ext.django import database_url, open_transaction, urls  # noqa: E402

app = hf.App(database_url(), worker=False)  # workers run elsewhere: `holdfast worker`


def pack(item: str) -> str:
    return f"packed {item}"


@app.workflow
async def ship(item: str) -> str:
    return await hf.run(pack, item)


django.setup()

from django.db import connection, transaction  # noqa: E402
from django.http import HttpRequest, JsonResponse  # noqa: E402
from django.urls import include, path  # noqa: E402


def orders(request: HttpRequest) -> JsonResponse:
    """The row and the execution are committed together, or neither is."""
    item = request.GET["item"]
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS orders (item TEXT)")
            cursor.execute("INSERT INTO orders VALUES (%s)", [item])
        handle: Any = ship.with_options(connection=open_transaction()).start(item)
    return JsonResponse({"id": handle.id}, status=202)


urlpatterns = [path("orders", orders), path("api/", include(urls(app, [ship])))]

if __name__ == "__main__":
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
