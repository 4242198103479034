"""Hearing the messages of a group for as long as a session lives.

A node may refuse a stream for a while: tokens are changed, a limit is reached, a proxy stands in between. Who
is refused today may be let in tomorrow, so a refusal is logged and the stream is asked for again, after ever
longer rests.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from holdfast.client.interface import Client
from holdfast.protocol.errors import HoldfastError
from holdfast.protocol.messages import Message
from holdfast.protocol.text import printable

log = logging.getLogger("holdfast.client")

refused_rest_s: Final = 2.0
refused_rest_s_max: Final = 30.0


async def listen(client: Client, group: str, member: str, hear: Callable[[Message], None]) -> None:
    """Until the client is closed."""
    loop = asyncio.get_running_loop()
    rest_s = refused_rest_s
    while True:
        began_s = loop.time()
        try:
            async with client.messages(group, member) as messages:
                async for message in messages:
                    hear(message)
            return
        except Exception as error:
            if loop.time() - began_s > refused_rest_s_max:  # it had been let in
                rest_s = refused_rest_s
            code = error.code if isinstance(error, HoldfastError) else None
            log.error(
                "the messages of %s cannot be heard; trying again in %g s: %s",
                printable(group),
                rest_s,
                printable(str(error)),
                exc_info=code is None,  # nobody refuses like that: it is a defect
                extra={"group": group, "code": code or type(error).__name__, "worker": member},
            )
        await asyncio.sleep(rest_s)
        rest_s = min(2 * rest_s, refused_rest_s_max)
