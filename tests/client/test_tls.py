"""The client over TLS, with a certificate that the test makes."""

import datetime
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from holdfast.client import ask
from holdfast.client.errors import Unreachable
from holdfast.client.http import HttpClient
from holdfast.protocol.messages import Execute
from holdfast.protocol.requests import PromiseCreate
from holdfast.server import Settings, running


def make_certificate(folder: Path) -> tuple[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "holdfast")])
    today = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(certificate.public_bytes(pem))
    (folder / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return str(folder / "cert.pem"), str(folder / "key.pem")


async def test_requests_and_messages_travel_over_tls(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path)
    tags = {"resonate:target": "poll://any@group"}
    async with running(Settings(port=0, store="memory:", tls_cert=cert, tls_key=key)) as server:
        trusting = ssl.create_default_context(cafile=cert)
        async with (
            HttpClient([server.url], tls=trusting) as client,
            client.messages("group", "me") as messages,
        ):
            [reply] = await client.request([ask(PromiseCreate("wf", 2**53 - 1, tags=tags))])
            assert reply.status == 200
            assert isinstance(await anext(messages), Execute)
        async with HttpClient([server.url], persistent=False) as client:
            with pytest.raises(Unreachable, match="certificate"):
                await client.request([ask(PromiseCreate("p", 2**53 - 1))])
