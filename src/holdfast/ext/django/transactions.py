"""Starting workflows and sending tasks with a transaction of Django's.

Two ways, which differ in what a crash leaves behind:

    with transaction.atomic():
        order = Order.objects.create(...)
        # 1. part of the transaction: the execution exists exactly if the order does
        checkout.with_options(connection=open_transaction()).start(order.pk)
        # 2. after the commit: a process that dies between the two leaves an order without its execution
        on_commit(checkout.with_options(id=f"order-{order.pk}"), order.pk)

1. `open_transaction` gives no connection outside of `atomic`: there each statement commits by itself.
2. What is rolled back, also to a savepoint of an inner `atomic`, takes the start with it.
"""

from typing import Any

from holdfast.app import Workflow
from holdfast.ext.optional import load
from holdfast.jobs.sending import Sending
from holdfast.payloads.errors import BadSetting

_db = load("django.db")


def open_transaction(using: str = "default") -> Any:
    """The open connection below `transaction.atomic()`, for `with_options(connection=...)`.

    Crash: the start is there if and only if your transaction committed. The App must keep its records in the
    same database: `App(database_url())`. On PostgreSQL, Django must use psycopg 3.
    """
    wrapper = _db.connections[using]
    if not wrapper.in_atomic_block:
        raise BadSetting(f"No transaction.atomic() is open on the database {using!r}: call this inside one")
    wrapper.ensure_connection()
    return wrapper.connection


def on_commit(
    what: Workflow[..., Any] | Sending[..., Any, Any], *args: Any, using: str = "default", **kwargs: Any
) -> None:
    """Start a workflow or send a task after the transaction has committed; outside of one, at once.

    For an App whose records are elsewhere, such as on a server. Crash: a process that dies between the commit
    and the start has not started it; give it an id, and start it again when in doubt.
    """

    def begin() -> None:
        if isinstance(what, Workflow):
            what.start(*args, **kwargs)
        else:
            what.send(*args, **kwargs)

    _db.transaction.on_commit(begin, using=using)
