"""The client over TLS, with a certificate that the test makes."""

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import holdfast as hf
from holdfast.cli import main
from holdfast.client import ask
from holdfast.client.errors import BadCertificate, ClientError, Unreachable
from holdfast.client.http import HttpClient
from holdfast.client.tls import client_context, find_certificate
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


# --- a server that asks for certificates ----------------------------------------------------------------


@pytest.fixture
async def strict_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[str]:
    """A server that serves only who has the certificate in `mine`; its own is trusted here."""
    for name in ("its", "mine", "other"):
        (tmp_path / name).mkdir()
        make_certificate(tmp_path / name)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "its" / "cert.pem"))
    settings = Settings(
        port=0,
        store="memory:",
        tls_cert=str(tmp_path / "its" / "cert.pem"),
        tls_key=str(tmp_path / "its" / "key.pem"),
        tls_client_ca=str(tmp_path / "mine" / "cert.pem"),
    )
    async with running(settings) as server:
        yield server.url


def context_of(folder: Path) -> ssl.SSLContext | None:
    return client_context(find_certificate(str(folder / "cert.pem"), str(folder / "key.pem")))


async def test_a_server_that_asks_for_certificates_serves_only_who_presents_one(
    strict_url: str, tmp_path: Path
) -> None:
    creation = ask(PromiseCreate("p", 2**53 - 1))
    for stranger in (None, context_of(tmp_path / "other")):
        async with HttpClient([strict_url], tls=stranger, persistent=False) as client:
            with pytest.raises(ClientError, match="client's certificate"):
                await client.request([creation])
    async with HttpClient([strict_url], tls=context_of(tmp_path / "mine")) as client:
        [reply] = await client.request([creation])
        assert reply.status == 200


async def test_an_app_presents_its_certificate(strict_url: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    app = hf.App(strict_url, client_cert=str(mine / "cert.pem"), client_key=str(mine / "key.pem"))

    @app.task
    async def double(number: int) -> int:
        return number * 2

    async with app:
        sent = await double.send_async(21)
        assert (await sent.get_async(timeout=60)).ok_value == 42


async def test_an_app_and_the_console_find_the_certificate_in_the_environment(
    strict_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["status"], ["promises", "search"], ["gc", "--older-than", "1d"]):
        words = [*command, "-S", strict_url, "--json", "--limit", "5s"]
        assert await asyncio.to_thread(main, words) != 0
        mine = [
            "--client-cert",
            str(tmp_path / "mine/cert.pem"),
            "--client-key",
            str(tmp_path / "mine/key.pem"),
        ]
        assert await asyncio.to_thread(main, [*words, *mine]) == 0, capsys.readouterr()
    monkeypatch.setenv("HOLDFAST_CLIENT_CERT", str(tmp_path / "mine" / "cert.pem"))
    monkeypatch.setenv("HOLDFAST_CLIENT_KEY", str(tmp_path / "mine" / "key.pem"))
    assert await asyncio.to_thread(main, ["status", "-S", strict_url]) == 0
    app = hf.App(strict_url, worker=False)

    @app.task
    async def double(number: int) -> int:
        return number * 2

    async with app:
        assert (await double.try_send_async(21)).is_ok


@pytest.mark.parametrize(
    ("cert", "key"),
    [("missing.pem", None), (None, "its/key.pem"), ("its/cert.pem", None), ("its/cert.pem", "mine/key.pem")],
)
async def test_a_certificate_that_cannot_be_used_is_refused_before_anything_is_sent(
    strict_url: str, tmp_path: Path, cert: str | None, key: str | None
) -> None:
    paths = [None if name is None else str(tmp_path / name) for name in (cert, key)]
    with pytest.raises(BadCertificate, match="HF4010"):
        async with hf.App(strict_url, worker=False, client_cert=paths[0], client_key=paths[1]):
            pass


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_tls_below_1_2_is_refused(strict_url: str, tmp_path: Path) -> None:
    versions = {ssl.TLSVersion.TLSv1: False, ssl.TLSVersion.TLSv1_1: False, ssl.TLSVersion.TLSv1_2: True}
    for version, is_served in versions.items():
        context = context_of(tmp_path / "mine")
        assert context is not None
        context.set_ciphers("DEFAULT:@SECLEVEL=0")  # this side would
        context.minimum_version = context.maximum_version = version
        async with HttpClient([strict_url], tls=context, persistent=False) as client:
            if is_served:
                [reply] = await client.request([ask(PromiseCreate("p", 2**53 - 1))])
                assert reply.status == 200
            else:
                with pytest.raises(Unreachable, match="HF4001"):
                    await client.request([ask(PromiseCreate("p", 2**53 - 1))])
