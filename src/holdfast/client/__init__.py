"""Clients of a node: one interface, embedded or over HTTP. Requests go in, messages come out.

The implementations are `holdfast.client.embedded.EmbeddedClient` and `holdfast.client.http.HttpClient`; they
are not imported here, so that a program loads only the one that it uses.
"""

from holdfast.client.caller import ask, expect
from holdfast.client.interface import Client, MessageStream

__all__ = ["Client", "MessageStream", "ask", "expect"]
