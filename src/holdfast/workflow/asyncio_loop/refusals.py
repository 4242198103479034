"""What the loop of a workflow refuses: everything that would touch the world.

It could not be repeated by a replay, and what it did would be done again. A step may do all of it.
"""

import asyncio
from typing import Any, Final, NoReturn

from holdfast.workflow.errors import NotInAWorkflowLoop

# Methods of an event loop that reach outside, or that only whoever owns the loop may call.
refused: Final = (
    "add_reader",
    "add_signal_handler",
    "add_writer",
    "close",
    "connect_accepted_socket",
    "connect_read_pipe",
    "connect_write_pipe",
    "create_connection",
    "create_datagram_endpoint",
    "create_server",
    "create_unix_connection",
    "create_unix_server",
    "getaddrinfo",
    "getnameinfo",
    "remove_reader",
    "remove_signal_handler",
    "remove_writer",
    "run_forever",
    "run_in_executor",
    "run_until_complete",
    "sendfile",
    "set_default_executor",
    "sock_accept",
    "sock_connect",
    "sock_recv",
    "sock_recv_into",
    "sock_recvfrom",
    "sock_recvfrom_into",
    "sock_sendall",
    "sock_sendfile",
    "sock_sendto",
    "start_tls",
    "stop",
    "subprocess_exec",
    "subprocess_shell",
)


def refuse(what: str) -> NoReturn:
    raise NotInAWorkflowLoop(f"The event loop of a workflow has no {what}: a replay could not repeat it")


def _refusing(name: str) -> Any:
    def method(self: object, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(name)

    method.__name__ = method.__qualname__ = name
    return method


class RefusingLoop(asyncio.AbstractEventLoop):
    """An event loop whose methods that touch the world raise, at the line of the call."""


for _name in refused:
    setattr(RefusingLoop, _name, _refusing(_name))
RefusingLoop.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
