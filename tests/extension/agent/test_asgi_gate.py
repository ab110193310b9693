"""Who may activate the extension, at real servers: bearers, client certificates, whole deployments."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import grpc
import grpc.aio
import httpx
import pytest
from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import GrpcHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, Message, Part, Role, SendMessageRequest, a2a_pb2_grpc
from a2a_tool_capture import URI, CapturingRequestHandler, ToolCallRecorder
from a2a_tool_capture.agent.asgi_gate import ActivationGate, KnownCallers
from a2a_tool_capture.agent.grpc_gate import ActivationInterceptor
from agents.serving import ServerThread
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.applications import Starlette

TOKEN = "s3cret-token"
SUBJECT = "CN=evaluator,O=Example"


class Agent(AgentExecutor):
    """Makes one call; its answer shows which extensions it was asked for."""

    def __init__(self, recorder: ToolCallRecorder) -> None:
        self._recorder = recorder

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        self._recorder.record("search", {"q": "kettle"}, result="KETTLE")
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        asked = [f"asked {uri};" for uri in sorted(context.requested_extensions) if uri != URI]
        await updater.add_artifact([new_text_part("".join(asked))])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def serving(recorder: ToolCallRecorder | None = None, card: AgentCard | None = None) -> CapturingRequestHandler:
    recorder = recorder or ToolCallRecorder()
    card = card or AgentCard(capabilities=AgentCapabilities(streaming=True), name="Guarded", version="1")
    return CapturingRequestHandler(Agent(recorder), InMemoryTaskStore(), card, recorder=recorder)


def app(url: str) -> Starlette:
    served = Starlette(routes=create_jsonrpc_routes(serving(), "/", enable_v0_3_compat=True))
    served.add_middleware(ActivationGate, tokens=["other", TOKEN], subjects=[SUBJECT], subject_header="X-Client-DN")
    return served


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with ServerThread(app) as server:
        yield server.url


# ── over HTTP ───────────────────────────────────────────────────────────────────────────────────────────────


async def told(url: str, headers: list[tuple[str, str]], method: str = "SendMessage") -> str:
    """The message asks, too, as some clients do without the header."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}], "extensions": [URI]}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
    async with httpx.AsyncClient() as http:
        response = await http.post(url, json=body, headers=[("A2A-Version", "1.0"), *headers])
    assert response.status_code == 200
    assert "TASK_STATE_COMPLETED" in response.text
    return response.text


ASKED = ("A2A-Extensions", f"urn:x, {URI}")

KNOWN = [
    [ASKED, ("Authorization", f"Bearer {TOKEN}")],
    [ASKED, ("Authorization", "bearer  other")],
    [ASKED, ("X-Client-DN", SUBJECT)],
    [ASKED, ("Authorization", "Basic dTpw"), ("X-Client-DN", SUBJECT)],
]

UNKNOWN = [
    [ASKED],
    [ASKED, ("Authorization", "Bearer wrong")],
    [ASKED, ("Authorization", f"Bearer {TOKEN}x")],
    [ASKED, ("Authorization", "Bearer")],
    [ASKED, ("Authorization", f"Basic {TOKEN}")],
    [ASKED, ("Authorization", TOKEN)],
    [ASKED, ("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer wrong")],
    [ASKED, ("X-Client-DN", "CN=somebody")],
    [ASKED, ("X-Client-DN", SUBJECT), ("X-Client-DN", "CN=somebody")],
    [("A2A-Extensions", URI), ("A2A-Extensions", f"urn:x,{URI}")],
]


@pytest.mark.statement(347)
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
@pytest.mark.parametrize("headers", KNOWN)
async def test_known_callers_are_told_calls(agent: str, headers: list[tuple[str, str]], method: str) -> None:
    body = await told(agent, headers, method)
    assert "KETTLE" in body
    assert "asked urn:x;" in body


@pytest.mark.statement(347)
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
@pytest.mark.parametrize("headers", UNKNOWN)
async def test_others_are_answered_as_if_they_had_not_asked(
    agent: str, headers: list[tuple[str, str]], method: str
) -> None:
    body = await told(agent, headers, method)
    assert "tool-call-capture" not in body
    assert "KETTLE" not in body
    assert "asked urn:x;" in body


async def test_the_header_of_a2a_0_3_is_guarded_too(agent: str) -> None:
    message = {"messageId": "m", "role": "user", "kind": "message", "parts": [{"kind": "text", "text": "hello"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    async with httpx.AsyncClient() as http:
        asking = {"X-A2A-Extensions": URI}
        unknown = await http.post(agent, json=body, headers=asking)
        known = await http.post(agent, json=body, headers=asking | {"Authorization": f"Bearer {TOKEN}"})
    assert "KETTLE" not in unknown.text
    assert "KETTLE" in known.text


@pytest.mark.parametrize(
    ("tls", "known"),
    [
        ({"client_cert_name": SUBJECT, "client_cert_error": None}, True),
        ({"client_cert_name": SUBJECT, "client_cert_error": "self-signed"}, False),
        ({"client_cert_name": "CN=somebody"}, False),
        ({"client_cert_name": None}, False),
        (None, False),
    ],
)
async def test_servers_that_verify_certificates_say_whose(tls: dict[str, Any] | None, known: bool) -> None:
    """By ASGI's TLS extension, which uvicorn does not have."""
    seen: list[Any] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["headers"])

    scope = {"type": "http", "headers": [(b"a2a-extensions", URI.encode())], "extensions": {"tls": tls} if tls else {}}
    await ActivationGate(inner, subjects=[SUBJECT])(scope, None, None)  # type: ignore[arg-type]
    assert seen == [[(b"a2a-extensions", URI.encode())] if known else []]
    assert scope["headers"], "the scope of the caller is not changed"


@pytest.mark.parametrize("who", [{}, {"tokens": [""]}, {"tokens": ["t", ""]}, {"subjects": [""]}])
def test_a_guard_that_knows_nobody_or_anybody_is_refused(who: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match="activate the extension"):
        ActivationGate(app, **who)  # type: ignore[arg-type]


def test_tokens_are_not_shown() -> None:
    assert TOKEN not in repr(KnownCallers(tokens=(TOKEN,)))


# ── over gRPC ───────────────────────────────────────────────────────────────────────────────────────────────


def certificate(name: str, issuer: tuple[Any, Any] | None = None, *, alternative: str = "") -> tuple[Any, Any]:
    """A key and a certificate for `name`, issued by `issuer` or self-signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName("localhost"), *([x509.DNSName(alternative)] if alternative else [])]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[1].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    return key, builder.sign(issuer[0] if issuer else key, hashes.SHA256())


def pem(pair: tuple[Any, Any]) -> tuple[bytes, bytes]:
    key, cert = pair
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private, cert.public_bytes(encoding)


@asynccontextmanager
async def grpc_agent(credentials: grpc.ServerCredentials | None = None, **who: list[str]) -> AsyncIterator[str]:
    server = grpc.aio.server(interceptors=[ActivationInterceptor(**who)])
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(serving()), server)
    address = "localhost:0"
    port = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"localhost:{port}" if credentials else f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def told_over_grpc(channel: grpc.aio.Channel, *metadata: tuple[str, str], stream: bool = False) -> str:
    stub = a2a_pb2_grpc.A2AServiceStub(channel)
    message = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text="hello")], extensions=[URI])
    request = SendMessageRequest(message=message)
    asking = (("a2a-extensions", f"urn:x,{URI}"), *metadata)
    if stream:
        events = [str(event) async for event in stub.SendStreamingMessage(request, metadata=asking)]
        return "\n".join(events)
    return str(await stub.SendMessage(request, metadata=asking))


@pytest.mark.parametrize("stream", [True, False])
async def test_bearers_over_grpc(stream: bool) -> None:
    async with grpc_agent(tokens=[TOKEN]) as address, grpc.aio.insecure_channel(address) as channel:
        known = await told_over_grpc(channel, ("authorization", f"Bearer {TOKEN}"), stream=stream)
        wrong = await told_over_grpc(channel, ("authorization", "Bearer wrong"), stream=stream)
        none = await told_over_grpc(channel, stream=stream)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary("/lf.a2a.v1.A2AService/NoSuchMethod")(b"")
    assert "KETTLE" in known
    for body in (wrong, none):
        assert "tool-call-capture" not in body
        assert "asked urn:x;" in body
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(("who", "told_calls"), [("evaluator", True), ("eval.example", True), ("somebody", False)])
async def test_client_certificates_over_grpc(who: str, told_calls: bool) -> None:
    authority = certificate("Test authority")
    root = pem(authority)[1]
    server = grpc.ssl_server_credentials([pem(certificate("localhost", authority))], root, require_client_auth=True)
    alternative = who if "." in who else ""
    key, chain = pem(certificate("a machine" if alternative else who, authority, alternative=alternative))
    client = grpc.ssl_channel_credentials(root, key, chain)
    async with (
        grpc_agent(server, subjects=["evaluator", "eval.example"]) as address,
        grpc.aio.secure_channel(address, client) as channel,
    ):
        body = await told_over_grpc(channel)
    assert ("KETTLE" in body) is told_calls


# ── a whole deployment ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.statement(346, 348)
@pytest.mark.parametrize("value", ["off", "0", " False "])
async def test_a_deployment_that_is_switched_off_never_tells(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_TOOL_CAPTURE", value)
    recorder = ToolCallRecorder()
    card = AgentCard(capabilities=AgentCapabilities(streaming=True), name="Guarded", version="1")
    handler = serving(recorder, card)
    assert not recorder.enabled
    assert not card.capabilities.extensions
    with ServerThread(lambda url: Starlette(routes=create_jsonrpc_routes(handler, "/"))) as server:
        body = await told(server.url, [ASKED])
    assert "tool-call-capture" not in body
    assert json.loads(body)["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("guard", [partial(ActivationGate, None), ActivationInterceptor])
@pytest.mark.parametrize("who", [{"tokens": TOKEN}, {"subjects": SUBJECT}])
def test_one_text_is_not_taken_for_a_list_of_characters(guard: Any, who: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="expected a list of strings"):
        guard(**who)


@pytest.mark.statement(348)
@pytest.mark.parametrize("value", ["on", "1", "TRUE", ""])
def test_it_is_on_unless_it_is_switched_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_TOOL_CAPTURE", value)
    assert ToolCallRecorder().enabled
    assert not ToolCallRecorder(enabled=False).enabled


def test_a_switch_that_is_neither_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_TOOL_CAPTURE", "maybe")
    with pytest.raises(ValueError, match="A2A_TOOL_CAPTURE is 'maybe'; expected on or off"):
        ToolCallRecorder()
