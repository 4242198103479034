"""Client certificates, for servers that ask for them.

The server's own certificate is checked in any case: against the authorities that this machine trusts, or
those in the file that SSL_CERT_FILE names.
"""

import os
import ssl

from msgspec import Struct

from holdfast.client.errors import BadCertificate


class Certificate(Struct, frozen=True):
    """Names of PEM files. The first may hold both; without either, none is presented."""

    cert: str | None
    key: str | None


def find_certificate(cert: str | None, key: str | None) -> Certificate:
    """What was given, else what HOLDFAST_CLIENT_CERT and HOLDFAST_CLIENT_KEY name: never one of each."""
    if cert or key:
        return Certificate(cert, key)
    return Certificate(
        os.environ.get("HOLDFAST_CLIENT_CERT") or None, os.environ.get("HOLDFAST_CLIENT_KEY") or None
    )


def client_context(certificate: Certificate) -> ssl.SSLContext | None:
    """For connections on which it is presented; None for those like any other."""
    if certificate.cert is None:
        if certificate.key is not None:
            raise BadCertificate("A client key was given without its certificate")
        return None
    context = ssl.create_default_context()
    try:
        context.load_cert_chain(certificate.cert, certificate.key, password="")  # nobody is asked for one
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        files = " and ".join(filter(None, (certificate.cert, certificate.key)))
        raise BadCertificate(f"The client's certificate in {files} cannot be used: {reason}") from None
    return context
