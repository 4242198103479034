"""Django itself: its transactions, `manage.py holdfast`, the admin pages. Every command is a process."""

import json
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.integrations.test_web_servers import ROOT
from tests.postgres import database_url
from tests.processes import environment, eventually

SETTINGS = "tests.integrations.django_shop.settings"
ENGINES = ["sqlite", "postgres"]


class Project:
    def __init__(self, folder: Path, engine: str) -> None:
        self.folder = folder
        self._more = {"DJANGO_SETTINGS_MODULE": SETTINGS, "SHOP_DIR": str(folder)}
        self._more["SHOP_APP"] = "tests.integrations.django_shop.durable:app"
        if engine == "postgres":
            self._more["SHOP_DB"] = json.dumps(_postgres(database_url()))
        self.manage("migrate", "--verbosity=0")

    def manage(self, *words: str) -> str:
        return self._run([sys.executable, "-m", "django", *words])

    def run(self, code: str) -> str:
        """In a process of the project; what it prints."""
        return self._run([sys.executable, "-c", f"import django; django.setup()\n{PRELUDE}\n{code}"])

    def dies(self, code: str) -> None:
        """The same, in a process that kills itself."""
        done = self.begin([sys.executable, "-c", f"import django; django.setup()\n{PRELUDE}\n{code}"])
        _, err = done.communicate(timeout=60)
        assert done.returncode == -signal.SIGKILL, err

    @contextmanager
    def working(self) -> Generator[subprocess.Popen[str]]:
        process = self.begin([sys.executable, "-m", "django", "holdfast", "worker", "--concurrency", "4"])
        try:
            assert process.stderr is not None
            assert any("working for group" in line for line in process.stderr)
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.communicate()

    def _run(self, command: list[str]) -> str:
        process = self.begin(command)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        return out.strip()

    def begin(self, command: list[str], **more: str) -> subprocess.Popen[str]:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, cwd=ROOT, env=environment(self._more | more), **pipes)


PRELUDE = """
import os, signal
from django.db import transaction
from holdfast.ext.django import on_commit, open_transaction
from tests.integrations.django_shop.models import Order
from tests.integrations.django_shop.workflows import app, count, pack
"""


def _postgres(url: str) -> dict[str, Any]:
    """By Django's words."""
    parts = urlsplit(url)
    query = {key: value[0] for key, value in parse_qs(parts.query).items()}
    found: dict[str, Any] = {"ENGINE": "django.db.backends.postgresql", "NAME": parts.path.strip("/")}
    found |= {"USER": parts.username or "", "PASSWORD": parts.password or ""}
    found |= {
        "HOST": parts.hostname or query.get("host", ""),
        "PORT": str(parts.port or query.get("port", "")),
    }
    return found | {"OPTIONS": {"options": f"-c search_path={query['search_path']}"}}


@pytest.fixture(params=ENGINES)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    return Project(tmp_path, request.param)


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Project:
    return Project(tmp_path, "sqlite")


def test_a_start_is_part_of_the_transaction_and_a_worker_runs_it(project: Project) -> None:
    with project.working():
        order = project.run(
            "with transaction.atomic():\n"
            "    order = Order.objects.create(item='tea')\n"
            "    pack.with_options(connection=open_transaction(), id=f'order-{order.pk}').start(order.pk)\n"
            "print(order.pk)"
        )
        look = f"print(Order.objects.get(pk={order}).receipt)"
        assert eventually(lambda: project.run(look)) == "receipt for tea"


def test_a_rollback_takes_the_start_along(project: Project) -> None:
    found = project.run(
        "app.start(pack, 0, id='first')\n"
        "try:\n"
        "    with transaction.atomic():\n"
        "        pack.with_options(connection=open_transaction(), id='all').start(1)\n"
        "        raise KeyError\n"
        "except KeyError: pass\n"
        "with transaction.atomic():\n"
        "    pack.with_options(connection=open_transaction(), id='outer').start(1)\n"
        "    try:\n"
        "        with transaction.atomic():\n"
        "            pack.with_options(connection=open_transaction(), id='inner').start(1)\n"
        "            raise KeyError\n"
        "    except KeyError: pass\n"
        "print(sorted(each.id for each in app.find()))"
    )
    assert found == "['first', 'outer']"


def test_a_process_that_dies_before_the_commit_leaves_neither_the_order_nor_the_execution(
    project: Project,
) -> None:
    project.dies(
        "app.start(pack, 0, id='first')\n"
        "with transaction.atomic():\n"
        "    order = Order.objects.create(item='tea')\n"
        "    pack.with_options(connection=open_transaction(), id='order').start(order.pk)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    found = project.run("print(Order.objects.count(), [each.id for each in app.find()])")
    assert found == "0 ['first']"


def test_a_task_is_sent_in_the_transaction_too(project: Project) -> None:
    found = project.run(
        "with transaction.atomic():\n"
        "    count.with_options(connection=open_transaction(), id='one').send(1)\n"
        "print([each.id for each in app.find(kind='task')])"
    )
    assert found == "['one']"


def test_outside_of_atomic_there_is_no_transaction_to_be_part_of(on_sqlite: Project) -> None:
    found = on_sqlite.run(
        "import holdfast as hf\ntry: open_transaction()\nexcept hf.HoldfastError as error: print(error)"
    )
    assert "No transaction.atomic() is open on the database 'default'" in found
    assert "HF5211" in found


def test_on_commit_starts_after_the_commit_and_not_at_all_after_a_rollback(on_sqlite: Project) -> None:
    found = on_sqlite.run(
        "with transaction.atomic():\n"
        "    on_commit(pack.with_options(id='late'), 1)\n"
        "    on_commit(count.with_options(id='sent'), 1)\n"
        "    before = [each.id for each in app.find()]\n"
        "try:\n"
        "    with transaction.atomic():\n"
        "        on_commit(pack.with_options(id='never'), 1)\n"
        "        raise KeyError\n"
        "except KeyError: pass\n"
        "print(before, sorted(each.id for each in app.find()))"
    )
    assert found == "[] ['late', 'sent']"


def test_commands_without_an_app_ask_the_node_of_the_project(on_sqlite: Project) -> None:
    on_sqlite.run("app.start(pack, 1, id='order-1')")
    assert "order-1" in on_sqlite.manage("holdfast", "list")
    assert on_sqlite.manage("holdfast", "check") == "nothing to correct"


def test_no_migration_is_missing_and_the_project_is_sound(on_sqlite: Project) -> None:
    assert "No changes detected" in on_sqlite.manage("makemigrations", "--check", "--dry-run")
    assert "no issues" in on_sqlite.manage("check")


PAGE = """
from django.contrib.auth.models import Permission, User
from django.test import Client
def page(user, path='/admin/holdfast/execution/'):
    client = Client(); client.force_login(user)
    return client.get(path)
admin = User.objects.create_superuser('admin')
clerk = User.objects.create_user('clerk', is_staff=True)
viewer = User.objects.create_user('viewer', is_staff=True)
viewer.user_permissions.add(Permission.objects.get(codename='view_execution'))
app.start(pack, 1, id='a/<b>')
"""


def test_admin_pages_list_executions_and_link_into_the_console(on_sqlite: Project) -> None:
    found = on_sqlite.run(
        f"{PAGE}\n"
        "text = page(viewer).content.decode()\n"
        "print('href=\"https://ops.example.org/console/#/executions/a%2F%3Cb%3E\"' in text, '<b>' in text)\n"
        "print('a/&lt;b&gt;' in page(admin, '/admin/holdfast/execution/?status=pending').content.decode())\n"
        "empty = page(admin, '/admin/holdfast/execution/?status=failed').content.decode()\n"
        "print('There are none' in empty)\n"
        "print('no such' in page(admin, '/admin/holdfast/execution/?status=odd').content.decode())\n"
        "print(page(viewer, '/admin/holdfast/execution/order-1/change/')['Location'])\n"
        "print(page(clerk).status_code, page(viewer, '/admin/holdfast/execution/add/').status_code)"
    )
    assert found.splitlines() == [
        "True False",
        "True",
        "True",
        "False",
        "https://ops.example.org/console/#/executions/order-1",
        "403 403",
    ]


def test_a_worker_that_is_killed_is_replaced_and_the_order_is_packed_once(project: Project) -> None:
    project.run(
        "with transaction.atomic():\n"
        "    for number in range(5):\n"
        "        order = Order.objects.create(item=f'tea {number}')\n"
        "        pack.with_options(connection=open_transaction()).start(order.pk)\n"
    )
    worker = [sys.executable, "-m", "django", "holdfast", "worker", "--concurrency", "1"]
    process = project.begin(worker, SHOP_KILLED_AT="tea 2")
    _, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, err
    with project.working():
        look = "print('' if Order.objects.filter(receipt='').exists() else 'all')"
        assert eventually(lambda: project.run(look)) == "all"
    receipts = (project.folder / "receipts").read_text().splitlines()
    assert sorted(receipts) == [f"tea {number}" for number in range(5)]
