"""An orderly end: finish what was accepted, send the workers away, be quick."""

import asyncio
import json
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from holdfast.server import Settings, running
from tests.server.http import connected, create, envelope, get, streaming, until
from tests.server.process import server_process
from tests.server.stores import GatedStore


async def test_stopping_answers_what_was_accepted_and_ends_the_streams() -> None:
    store = GatedStore()
    settings = Settings(port=0, store="memory:")
    async with (
        running(settings, store) as server,
        streaming(server.url, "g", "w") as stream,
        connected(server.url) as connection,
    ):
        store.gate.clear()
        body = json.dumps(envelope("promise.create", create("p"))).encode()
        asked = asyncio.create_task(connection.request("POST", "/", body))
        await until(lambda: server.app.metrics.in_flight > 0)
        server.ask_to_stop()
        assert await stream.message() is None  # a clean end: the worker reconnects
        store.gate.set()
        assert (await asked).status == 200
        await connection.rest()


async def test_stopping_does_not_wait_for_ever() -> None:
    store = GatedStore()
    settings = Settings(port=0, store="memory:", stop_timeout_s=0.2)
    async with asyncio.timeout(60):
        async with running(settings, store) as server, connected(server.url) as connection:
            store.gate.clear()
            body = json.dumps(envelope("promise.create", create("p"))).encode()
            asked = asyncio.create_task(connection.request("POST", "/", body))
            await until(lambda: server.app.metrics.in_flight > 0)
            server.ask_to_stop()
            await asyncio.wait([asked], timeout=5)
            store.gate.set()
        asked.cancel()


async def test_a_process_told_to_stop_exits_with_zero(tmp_path: Path) -> None:
    async with server_process(store=f"sqlite:///{tmp_path}/h.db", log_level="info") as server:
        async with streaming(server.url, "g", "w") as stream:
            stopping = asyncio.create_task(server.stop())
            assert await stream.message() is None
        code, log = await stopping
    assert code == 0
    messages = [json.loads(line)["message"] for line in log.splitlines()]
    assert messages == ["ready", "stop requested", "stopping", "stopped"]


def _certificate(folder: Path) -> tuple[str, str]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(folder / "cert.pem"), str(folder / "key.pem")


async def test_who_does_not_shake_hands_is_dropped_like_who_does_not_ask(tmp_path: Path) -> None:
    cert, key = _certificate(tmp_path)
    settings = Settings(port=0, store="memory:", tls_cert=cert, tls_key=key, read_timeout_s=0.2)
    async with running(settings) as server, connected(server.url) as silent, connected(server.url) as slow:
        await slow.send(b"\x16\x03\x01")  # the first bytes of a handshake
        assert await silent.rest() == b""
        assert await slow.rest() == b""


async def test_tls_is_one_setting_away(tmp_path: Path) -> None:
    cert, key = _certificate(tmp_path)
    trust = ssl.create_default_context(cafile=cert)
    settings = Settings(port=0, store="memory:", tls_cert=cert, tls_key=key)
    async with running(settings) as server:
        assert server.url.startswith("https://")
        async with connected(server.url, ssl=trust) as connection:
            assert (await connection.request("GET", "/health")).status == 200
        try:
            await get(server.url, "/health")
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        else:
            raise AssertionError("plain HTTP was answered")
