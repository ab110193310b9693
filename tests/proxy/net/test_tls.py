"""HTTPS to clients and to the agent, with and without certificates of clients, replaced under open streams."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import socket
import ssl
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.net.http_server import HttpServer
from a2a_eval_proxy.net.served_request import CLIENT
from a2a_eval_proxy.net.tls import TlsFiles
from a2a_eval_proxy.settings.parts import TlsFilesOptions, TlsPorts
from a2a_eval_proxy.settings.settings import Settings
from agents.scenario_agent import scenario_agent
from support.certificates import Authority, MountedSecret, Pair
from support.net_server import hello, serving
from support.patience import PATIENCE_S
from support.raw_a2a import RPC, Wire

pytestmark = pytest.mark.timeout(method="thread")  # uvloop does not wake up for a signal

YESTERDAY = datetime.now(UTC) - timedelta(days=1)
CARD = "/.well-known/agent-card.json"
NAMES = ("x-token", "cookie", "x-other")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that no peer trusts."""
    return Authority(tmp_path_factory.mktemp("stranger"))


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with scenario_agent() as running:
        yield running.url


@asynccontextmanager
async def proxy_before(upstream: str, folder: Path, **settings: Any) -> AsyncIterator[RunningProxy]:
    free = "127.0.0.1:0"
    chosen = {name: str(value) if isinstance(value, Path) else value for name, value in settings.items()}
    chosen |= {"tls_ports": TlsPorts(admin=TlsFilesOptions())}
    async with run_proxy(
        Settings(upstream=upstream, listen=free, admin=free, otlp=None, store=str(folder / "turns.db"), **chosen)
    ) as proxy:
        yield proxy


def http(proxy: RunningProxy, tls: ssl.SSLContext | bool = True) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=proxy.url, verify=tls, trust_env=False)


def files(pair: Pair) -> dict[str, Path]:
    return {"tls_cert": pair.cert, "tls_key": pair.key}


async def serial_shown(proxy: RunningProxy, tls: ssl.SSLContext) -> int:
    """The serial number of the certificate that a new connection sees."""
    parts = urlsplit(proxy.url)
    _, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=tls)
    certificate = writer.get_extra_info("peercert")
    writer.transport.abort()
    return int(certificate["serialNumber"], 16)


# ── clients over HTTPS ──────────────────────────────────────────────────────────────────────────────────────


async def test_client_and_proxy_agree_on_the_version_of_http(authority: Authority, agent: str, tmp_path: Path) -> None:
    pair = authority.issue("encrypted", password="open sesame")
    async with proxy_before(agent, tmp_path, **files(pair), tls_key_password="open sesame") as proxy:
        for http2 in (True, False):
            async with httpx.AsyncClient(verify=authority.client(), http2=http2, trust_env=False) as client:
                response = await client.get(proxy.url + CARD)
            assert (response.status_code, response.http_version) == (200, "HTTP/2" if http2 else "HTTP/1.1")
            assert response.json()["supportedInterfaces"][0]["url"].startswith(proxy.url)


# ── certificates of clients ─────────────────────────────────────────────────────────────────────────────────


async def test_clients_must_show_a_certificate(
    authority: Authority, stranger: Authority, agent: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    refused = [
        None,
        stranger.issue("client"),
        authority.issue("expired", not_after=YESTERDAY),
    ]
    settings = files(authority.issue("proxy")) | {"tls_client_ca": authority.ca}
    async with proxy_before(agent, tmp_path, **settings) as proxy:
        for pair in refused:
            async with http(proxy, authority.client(pair)) as client:
                with pytest.raises(httpx.TransportError):
                    await client.get(CARD)
        async with httpx.AsyncClient(trust_env=False) as plain:
            with pytest.raises(httpx.TransportError):
                await plain.get(proxy.url.replace("https", "http") + CARD)
        assert proxy.control.serving.metrics.requests == 0
        async with http(proxy, authority.client(authority.issue("client"))) as client:
            assert (await client.get(CARD)).status_code == 200
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


# ── the agent over HTTPS ────────────────────────────────────────────────────────────────────────────────────

UNACCEPTED = {
    "unknown authority": ({}, "stranger", "unable to get local issuer certificate"),
    "expired": ({"not_after": YESTERDAY}, "authority", "certificate has expired"),
    "other name": ({"host": "localhost"}, "authority", "IP address mismatch, certificate is not valid for '127.0.0.1'"),
}


@pytest.mark.parametrize("case", UNACCEPTED)
async def test_an_agent_whose_certificate_is_not_accepted(
    case: str, authority: Authority, tmp_path: Path, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    options, issuer, expected = UNACCEPTED[case]
    tls = request.getfixturevalue(issuer).server(**options)
    with scenario_agent(tls=tls) as agent:
        async with (
            proxy_before(agent.url, tmp_path, upstream_tls=TlsFilesOptions(ca=str(authority.ca))) as proxy,
            http(proxy) as client,
        ):
            rpc = await say(client, Wire("1.0", "JSONRPC", request_id="the id"), "message hello")
            rest = await say(client, Wire("1.0", "HTTP+JSON"), "message hello")
            card = await client.get(CARD)
            await proxy.flush(PATIENCE_S)
            turns = await proxy.turns()

    assert (rpc.status_code, rest.status_code, card.status_code) == (502, 502, 502)
    assert rpc.json()["id"] == "the id"
    message = f"the agent at {agent.url} cannot be reached: its certificate is not accepted: {expected}"
    assert [answer.json()["error"]["message"] for answer in (rpc, rest, card)] == [message] * 3
    assert rest.json()["error"]["status"] == "UNAVAILABLE"
    assert {finding["code"] for turn in turns for finding in turn["findings"]} >= {"upstream_unreachable"}
    assert not [record for record in caplog.records if record.exc_info]


async def test_an_agent_that_wants_a_certificate(
    authority: Authority, stranger: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ours = authority.issue("ours")
    files_of_both = TlsFilesOptions(ca=str(authority.ca), cert=str(ours.cert), key=str(ours.key))
    with scenario_agent(tls=authority.server(clients=authority)) as agent:
        async with proxy_before(agent.url, tmp_path, upstream_tls=files_of_both) as proxy, http(proxy) as client:
            assert (await say(client, Wire("1.0", "JSONRPC"), "message hello")).status_code == 200
        async with (
            proxy_before(agent.url, tmp_path, upstream_tls=TlsFilesOptions(ca=str(authority.ca))) as proxy,
            http(proxy) as client,
        ):
            refused = await say(client, Wire("1.0", "JSONRPC"), "message hello")

    assert refused.status_code == 502
    assert "does it want a client certificate?" in refused.json()["error"]["message"]
    assert not [record for record in caplog.records if record.exc_info]


async def say(client: httpx.AsyncClient, wire: Wire, text: str) -> httpx.Response:
    request = wire.message(text)
    path = request.request_line.split()[1]
    return await client.post(path, headers=dict(request.headers), content=request.body)


# ── replaced files ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_certificate_replaced_under_an_open_stream(authority: Authority, agent: str, tmp_path: Path) -> None:
    first, second = authority.issue("first"), authority.issue("second")
    mounted = MountedSecret(tmp_path / "tls")
    mounted.put_pair(first)
    tls = authority.client()
    settings = {"tls_cert": mounted / "tls.crt", "tls_key": mounted / "tls.key"}
    message = Wire("1.0", "JSONRPC").message("slow under-replacement", stream=True)
    async with (
        proxy_before(agent, tmp_path, **settings) as proxy,
        http(proxy, tls) as client,
        client.stream("POST", RPC, headers=dict(message.headers), content=message.body) as response,
        httpx.AsyncClient(trust_env=False) as control,
    ):
        lines = response.aiter_lines()
        async for line in lines:
            if "before " in line:
                break
        mounted.put(tls_crt=second.cert.read_bytes(), tls_key=first.key.read_bytes())
        proxy.control.serving.files.check()
        assert await serial_shown(proxy, tls) == first.serial, "a pair that does not match changes nothing"

        mounted.put_pair(second)
        proxy.control.serving.files.check()

        assert await serial_shown(proxy, tls) == second.serial
        await control.post(f"{agent}/_control/open", params={"gate": "under-replacement"})
        rest = [line async for line in lines]
    assert any("TASK_STATE_COMPLETED" in line for line in rest)


async def test_no_session_is_taken_up_again_after_its_authority_was_replaced(
    authority: Authority, stranger: Authority, agent: str, tmp_path: Path
) -> None:
    """In TLS 1.2 sessions outlive their connections without tickets, too; no certificate is checked again then."""
    ca = tmp_path / "clients.pem"
    ca.write_bytes(authority.ca.read_bytes())
    tls = authority.client(authority.issue("client"))
    tls.maximum_version = ssl.TLSVersion.TLSv1_2

    def connect(session: ssl.SSLSession | None) -> tuple[bytes, ssl.SSLSession | None]:
        """What is answered, nothing where the connection is refused; and the session."""
        port = urlsplit(proxy.url).port or 0
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as plain,
            tls.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as secure,
        ):
            secure.sendall(b"GET /.well-known/agent-card.json HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
            answer, left = b"".join(iter(lambda: secure.recv(65536), b"")), secure.session
            secure.unwrap()  # a session whose connection did not end in order is forgotten
            return answer[:12], left
        return b"", None

    async with proxy_before(agent, tmp_path, **files(authority.issue("proxy")), tls_client_ca=ca) as proxy:
        answer, session = await asyncio.to_thread(connect, None)
        assert answer == b"HTTP/1.1 200"
        assert session is not None
        ca.write_bytes(stranger.ca.read_bytes())
        proxy.control.serving.files.check()
        assert await asyncio.to_thread(connect, session) == (b"", None)


async def test_a_replaced_authority_of_the_agent(authority: Authority, stranger: Authority, tmp_path: Path) -> None:
    ca = tmp_path / "agent.pem"
    ca.write_bytes(stranger.ca.read_bytes())
    with scenario_agent(tls=authority.server()) as agent:
        async with (
            proxy_before(agent.url, tmp_path, upstream_tls=TlsFilesOptions(ca=str(ca))) as proxy,
            http(proxy) as client,
        ):
            assert (await client.get(CARD)).status_code == 502
            ca.write_bytes(authority.ca.read_bytes())
            proxy.control.serving.files.check()
            card = await client.get(CARD)
    assert card.status_code == 200
    assert agent.url not in json.dumps(card.json())


# ── the end of a connection ─────────────────────────────────────────────────────────────────────────────────


async def test_clients_that_stay_connected_do_not_hold_up_the_end(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They never answer the close of TLS, for which event loops wait."""
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "create_server", partial(loop.create_server, ssl_shutdown_timeout=10 * PATIENCE_S))
    server = HttpServer(hello, "127.0.0.1:0", shutdown_timeout_s=10 * PATIENCE_S, tls=authority.server())
    await server.start()
    async with httpx.AsyncClient(verify=authority.client(), trust_env=False) as client:
        assert (await client.get(server.url)).text == "hello"
        async with asyncio.timeout(PATIENCE_S):  # not reached where it works
            await server.stop()


async def test_a_slow_client_gets_the_end_of_the_last_response(authority: Authority) -> None:
    """The server has closed long before everything is on the wire."""
    body = bytes(1_000_000)
    said = asyncio.Event()

    async def large(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000000")]})
        await send({"type": "http.response.body", "body": body})
        said.set()

    server = HttpServer(large, "127.0.0.1:0", shutdown_timeout_s=60, tls=authority.server())
    await server.start()
    parts = urlsplit(server.url)

    def answer() -> bytes:  # in a thread: a client on uvloop loses the end of what it is slow to read
        with (
            socket.create_connection((parts.hostname, parts.port)) as plain,
            authority.client().wrap_socket(plain, server_hostname=parts.hostname) as connection,
        ):
            connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            return b"".join(iter(partial(connection.recv, 10_000), b""))

    answered = asyncio.create_task(asyncio.to_thread(answer))
    await said.wait()
    await server.stop()
    assert (await answered).endswith(b"\r\n\r\n" + body)


@pytest.mark.parametrize("leaves", [False, True])
async def test_the_memory_of_a_connection_goes_with_it(authority: Authority, leaves: bool) -> None:
    """The buffers of TLS are large, and `serve` has the collector of cycles run seldom."""
    connections = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        client = scope["extensions"][CLIENT]
        client.watch()
        connections.extend(map(weakref.ref, server.clients.connections))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello", "more_body": leaves})
        if leaves:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        else:
            client.cancels = False

    async with serving(app, tls=authority.server()) as server:
        parts = urlsplit(server.url)
        gc.disable()
        try:
            for _ in range(3):
                reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=authority.client())
                writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
                await reader.readuntil(b"hello")
                writer.transport.abort()
            async with asyncio.timeout(PATIENCE_S):  # not reached where it works
                while any(connection() for connection in connections):
                    await asyncio.sleep(0.01)
        finally:
            gc.enable()


# ── headers of ours for the agent ───────────────────────────────────────────────────────────────────────────


async def test_a_replaced_token_is_used_at_once(agent: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mounted = MountedSecret(tmp_path / "secret")
    mounted.put(token=b"t0ken-one\n")
    headers = (("X-Token", f"${{file:{mounted / 'token'}}}"), ("Cookie", "a=1"))
    sent = []
    async with (
        run_proxy(
            Settings(
                upstream=agent,
                listen="127.0.0.1:0",
                admin="127.0.0.1:0",
                otlp=None,
                store=str(tmp_path / "turns.db"),
                upstream_header=headers,
            )
        ) as proxy,
        http(proxy) as client,
        httpx.AsyncClient(base_url=agent, trust_env=False) as control,
    ):
        for content in (b"t0ken-one\n", b"t0ken-two", b"t0ken\nthree", b"", b"t0ken-four"):
            mounted.put(token=content)
            proxy.control.serving.files.check()
            proxy.control.serving.files.check()
            await client.get(CARD, headers=[("x-token", "theirs"), ("cookie", "b=2"), ("x-other", "stays")])
            request = (await control.get("/_control/requests")).json()[-1]
            sent.append([(name, value) for name, value in request["headers"] if name in NAMES])
    assert sent == [
        [("x-token", token), ("cookie", "a=1"), ("x-other", "stays")]
        for token in ("t0ken-one", "t0ken-two", "t0ken-two", "t0ken-two", "t0ken-four")
    ]
    problems = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(problems) == 2
    assert "header 'X-Token' holds a line break" in problems[0]
    assert f"needs the file {mounted / 'token'}, which is empty" in problems[1]
    assert "t0ken" not in "".join(problems)


# ── PEM files that cannot be used ───────────────────────────────────────────────────────────────────────────


JUNK_CERT = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
JUNK_KEY = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pem")
    authority = Authority(folder)
    a, _ = authority.issue("a"), authority.issue("b")
    authority.issue("locked", password="open sesame")
    (folder / "both.pem").write_bytes(a.key.read_bytes() + a.cert.read_bytes())
    (folder / "empty").write_bytes(b"")
    (folder / "junk.crt").write_bytes(JUNK_CERT)
    (folder / "junk.key").write_bytes(JUNK_KEY)
    (folder / "folder").mkdir()
    return folder


def pem(folder: Path, cert: str, key: str, password: str | None = None) -> TlsFiles:
    return TlsFiles(
        setting="tls_",
        ca_setting="tls_client_ca",
        cert=str(folder / cert),
        key=str(folder / key),
        key_password=password,
    )


@pytest.mark.parametrize(
    ("cert", "key", "said"),
    [
        ("no.crt", "a.key", "tls_cert: cannot use {}/no.crt: No such file or directory; expected a file with a PEM"),
        ("folder", "a.key", "tls_cert: cannot use {}/folder: it is not a file; expected a file with a PEM certificate"),
        ("empty", "a.key", "tls_cert: cannot use {}/empty: there is no PEM certificate in it"),
        ("a.key", "a.key", "tls_cert: cannot use {}/a.key: there is no PEM certificate in it"),
        ("junk.crt", "a.key", "tls_cert, tls_key: {}/junk.crt and {}/a.key hold no certificate and key that can be"),
        ("a.crt", "no.key", "tls_key: cannot use {}/no.key: No such file or directory; expected a file with a PEM"),
        ("a.crt", "folder", "tls_key: cannot use {}/folder: it is not a file; expected a file with a PEM private key"),
        ("a.crt", "a.crt", "tls_key: cannot use {}/a.crt: there is no PEM private key in it"),
        ("a.crt", "junk.key", "tls_cert, tls_key: {}/a.crt and {}/junk.key hold no certificate and key that can be"),
        ("a.crt", "b.key", "tls_key: {}/b.key is not the key of the certificate in {}/a.crt"),
        ("locked.crt", "locked.key", "tls_key: {}/locked.key is encrypted; set tls_key_password"),
    ],
)
def test_bad_certificates_and_keys(cert: str, key: str, said: str, folder: Path) -> None:
    for context in (pem(folder, cert, key).server_context, pem(folder, cert, key).client_context):
        with pytest.raises(ConfigError) as raised:
            context()
        assert str(raised.value).startswith(said.replace("{}", str(folder)))
        assert "\n" not in str(raised.value)
        assert "_ssl.c" not in str(raised.value)


def test_a_wrong_password_is_hinted_at_and_not_shown(folder: Path) -> None:
    with pytest.raises(ConfigError, match="or tls_key_password is not its password") as raised:
        pem(folder, "locked.crt", "locked.key", "s3cret").server_context()
    assert "s3cret" not in str(raised.value) + repr(pem(folder, "locked.crt", "locked.key", "s3cret"))


@pytest.mark.parametrize(
    ("cert", "key", "password"),
    [
        ("a.crt", "a.key", None),
        ("a.crt", "a.key", "of no use"),
        ("both.pem", "both.pem", None),
        ("locked.crt", "locked.key", "open sesame"),
    ],
)
def test_good_ones(cert: str, key: str, password: str | None, folder: Path) -> None:
    context = pem(folder, cert, key, password).server_context()
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize(
    ("ca", "said"),
    [
        ("no.pem", "cannot use {}/no.pem: No such file or directory; expected a file with a PEM certificate"),
        ("folder", "cannot use {}/folder: it is not a file"),
        ("a.key", "cannot use {}/a.key: there is no PEM certificate in it"),
        ("junk.crt", "{}/junk.crt holds certificates that cannot be used ("),
    ],
)
def test_bad_authorities(ca: str, said: str, folder: Path) -> None:
    path = str(folder / ca)
    client = TlsFiles(setting="upstream_tls.", ca_setting="upstream_tls.ca", ca=path)
    server = TlsFiles(
        setting="tls_", ca_setting="tls_client_ca", cert=str(folder / "a.crt"), key=str(folder / "a.key"), ca=path
    )
    for context, setting in ((client.client_context, "upstream_tls.ca"), (server.server_context, "tls_client_ca")):
        with pytest.raises(ConfigError) as raised:
            context()
        assert str(raised.value).startswith(f"{setting}: {said.replace('{}', str(folder))}")


def test_an_authority_of_ours_stands_in_place_of_the_systems(folder: Path) -> None:
    trusting = TlsFiles(
        setting="upstream_tls.", ca_setting="upstream_tls.ca", ca=str(folder / "ca.pem")
    ).client_context()
    assert len(trusting.get_ca_certs()) == 1
    assert trusting.check_hostname
    assert trusting.verify_mode == ssl.CERT_REQUIRED
