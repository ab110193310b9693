"""Where cards are looked for, proxies of the environment, and secrets in headers."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.request import getproxies_environment

import httpx
import pytest
from a2a.client.errors import A2AClientError
from a2a.types import AgentCapabilities, AgentCard, AgentExtension
from a2a.utils.errors import ExtensionSupportRequiredError, TaskNotFoundError
from a2a_tool_capture import URI
from a2a_tool_capture.agent_connection import mapped_errors
from a2a_tool_capture.card_search import CardAnswer, card_urls, find_card
from a2a_tool_capture.client import CaptureClient
from a2a_tool_capture.environment_proxies import proxy_for
from a2a_tool_capture.errors import AgentError, AgentUnreachableError, ConfigurationError
from a2a_tool_capture.secret_references import referenced_files, resolve_header
from agents.scenario_agent import scenario_agent
from google.protobuf.json_format import SerializeToJsonError

NAMES = ("/.well-known/agent-card.json", "/.well-known/agent.json")
AT_ORIGIN = [f"http://h{name}" for name in NAMES]
BELOW = [f"http://h/a2a{name}" for name in NAMES]


@pytest.mark.parametrize(
    ("url", "urls"),
    [
        ("http://h", AT_ORIGIN),
        ("http://h/", AT_ORIGIN),
        ("http://h/.well-known/agent.json", AT_ORIGIN),
        ("http://h/a2a", BELOW + AT_ORIGIN),
        ("http://h/a2a/", BELOW + AT_ORIGIN),
        ("http://h/a2a/.well-known/agent-card.json", BELOW + AT_ORIGIN),
        ("http://h/cards/orders.json", ["http://h/cards/orders.json", *AT_ORIGIN]),
    ],
)
def test_below_the_url_and_at_its_origin(url: str, urls: list[str]) -> None:
    assert card_urls(url) == urls


CARD = json.dumps({"name": "a", "supportedInterfaces": []}).encode()


@pytest.mark.parametrize("place", [*BELOW, *AT_ORIGIN])
@pytest.mark.parametrize("others", [(404, b""), (200, b"<html>app"), (401, b""), (200, b"{}"), (500, b"")])
async def test_the_card_is_found_whatever_is_elsewhere(place: str, others: tuple[int, bytes]) -> None:
    async def fetch(url: str) -> CardAnswer:
        status, body = (200, CARD) if url == place else others
        return CardAnswer(status, {}, body)

    found = await find_card(card_urls("http://h/a2a"), fetch)
    assert (found.url, found.body) == (place, CARD)


@pytest.mark.parametrize(
    ("given", "place", "interface", "remarks"),
    [
        ("http://h/typo", AT_ORIGIN[0], "http://h/rpc", 1),
        ("http://h/old", AT_ORIGIN[1], "http://h/rpc", 1),
        ("http://h/cards/orders.json", AT_ORIGIN[0], "http://h/rpc", 1),
        ("http://h/a2a", AT_ORIGIN[0], "http://h/a2a/rpc", 0),
        ("http://h/a2a", BELOW[1], "http://h/rpc", 0),
        ("http://h", AT_ORIGIN[1], "http://h/rpc", 0),
    ],
)
async def test_a_card_of_the_origin_that_does_not_name_the_url_is_remarked_once(
    given: str, place: str, interface: str, remarks: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def fetch(url: str) -> CardAnswer:
        card = {"name": "a", "supportedInterfaces": [{"url": interface}]}
        return CardAnswer(200, {}, json.dumps(card).encode()) if url == place else CardAnswer(404, {}, b"")

    for _ in range(2):
        await find_card(card_urls(given), fetch)
    said = f"there is no agent card at {given}; talking to the agent of {place} ('a') instead"
    assert caplog.messages == [said] * remarks


async def test_without_a_card_the_most_telling_answer_is_named() -> None:
    async def fetch(url: str) -> CardAnswer:
        return CardAnswer(401 if url == BELOW[1] else 404, {}, b"who?")

    with pytest.raises(AgentError, match=r"/a2a/\.well-known/agent\.json answered HTTP 401: who\?; credentials"):
        await find_card(card_urls("http://h/a2a"), fetch)


def refused(*uris: str) -> AgentCard:
    """A card of an agent that requires these extensions, and that of calls, and has another one."""
    listed = [AgentExtension(uri=uri, required=True) for uri in (URI, *uris)]
    return AgentCard(capabilities=AgentCapabilities(extensions=[*listed, AgentExtension(uri="urn:optional")]))


UNREACHABLE = httpx.ConnectError("[Errno 111] Connection refused")


@pytest.mark.parametrize(
    ("error", "known", "kind", "said"),
    [
        (
            ExtensionSupportRequiredError("x"),
            {"card": refused("urn:x")},
            AgentUnreachableError,
            "A2A-Extensions: urn:x",
        ),
        (ExtensionSupportRequiredError("x"), {"card": refused()}, AgentUnreachableError, "A2A-Extensions: URI"),
        (ExtensionSupportRequiredError("x"), {}, AgentUnreachableError, "A2A-Extensions: URI"),
        (TaskNotFoundError("no t"), {}, AgentError, "http://a answered with TaskNotFoundError: no t"),
        (A2AClientError("odd"), {}, AgentError, "http://a answered with an error: odd"),
        (A2AClientError("odd"), {"first": True}, AgentError, "answered with no agent card (odd); is it an A2A agent?"),
        (httpx.ReadTimeout(""), {}, AgentUnreachableError, "http://a did not respond in time (ReadTimeout)"),
        (UNREACHABLE, {}, AgentUnreachableError, "http://a cannot be reached: connection refused"),
        (httpx.ReadError("cut"), {}, AgentUnreachableError, "http://a closed the connection: cut"),
        (SerializeToJsonError("nan"), {}, AgentError, "http://a answered with what JSON cannot hold: nan"),
        (KeyError("id"), {}, AgentError, "http://a answered with something that is not A2A: 'id'"),
        (KeyError("id"), {"first": True}, AgentError, "answered with no agent card ('id'); is it an A2A agent?"),
    ],
)
def test_an_error_of_the_sdk_says_whose_it_is_and_what_to_do(
    error: Exception, known: dict[str, Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=re.escape(said)), mapped_errors("http://a", **known):
        raise error


PROXY = "http://127.0.0.1:1"
EVERY = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in EVERY:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("exceptions", "url", "direct"),
    [
        ("", "http://h", False),
        ("*", "http://h", True),
        ("h", "http://h", True),
        ("h", "http://oh", False),
        (".example.com", "http://a.example.com", True),
        ("*.example.com", "http://a.example.com", True),
        ("example.com", "http://a.example.com", True),
        ("example.com", "http://anexample.com", False),
        ("h:80", "http://h:81", False),
        ("h:81", "http://h:81", True),
        ("[::1]", "http://[::1]:9", True),
        ("::1", "http://[::1]:9", True),
        ("[::1]:9", "http://[::1]:9", True),
        ("10.0.0.0/8, x", "http://10.1.2.3", True),
        ("10.0.0.0/8", "http://11.1.2.3", False),
        ("http://h", "http://h", True),
        ("[", "http://h", False),
        ("ü,,\x7f", "http://h", False),
    ],
)
def test_hosts_that_are_reached_directly(
    exceptions: str, url: str, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", exceptions)
    assert (proxy_for(httpx.URL(url), getproxies_environment()) is None) == direct


async def test_a_client_obeys_them_or_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with scenario_agent() as agent:
        monkeypatch.setenv("HTTP_PROXY", PROXY)
        with pytest.raises(AgentUnreachableError, match=rf"via proxy {PROXY} from HTTP_PROXY; is that proxy right\?"):
            await CaptureClient(agent.url).__aenter__()
        async with CaptureClient(agent.url, trust_env=False) as client:
            assert client.card.name
        monkeypatch.setenv("NO_PROXY", "[::1],127.0.0.1")
        async with CaptureClient(agent.url) as client:
            assert client.card.name
        monkeypatch.delenv("NO_PROXY")
        monkeypatch.setenv("HTTP_PROXY", "socks5://p:1")
        with pytest.raises(ConfigurationError, match="SOCKS needs"):
            await CaptureClient(agent.url).__aenter__()


def test_variables_and_files_are_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a token").write_text("  f1le\n")
    monkeypatch.setenv("TOKEN", "v4riable")
    value = f"Bearer ${{TOKEN}}.${{file:{tmp_path}/a token}}"
    assert resolve_header("Authorization", value) == "Bearer v4riable.f1le"
    assert referenced_files(value) == [f"{tmp_path}/a token"]


@pytest.mark.parametrize("value", ["", "plain", "$TOKEN", "${}", "${file:}", "${1}", "{TOKEN}"])
def test_what_refers_to_nothing_stays_as_it_is(value: str) -> None:
    assert resolve_header("x", value) == value
    assert referenced_files(value) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        (b"", "which is empty"),
        (b" \n", "which is empty"),
        (b"s3cret" * 20_000, "which exceeds 65536 bytes"),
        (b"s3cret\nother", "holds a line break, a control or a non-ASCII character"),
        (b"s3cret\xff", "holds a line break, a control or a non-ASCII character"),
    ],
)
def test_a_file_that_cannot_be_a_header_is_named_and_not_shown(
    content: bytes | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=said) as raised:
        resolve_header("Authorization", f"Bearer ${{file:{path}}}")
    assert "'Authorization'" in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_a_named_pipe_is_no_file_of_a_secret(tmp_path: Path) -> None:
    """To open one waits for a writer."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match="not a regular file"):
        resolve_header("x", f"${{file:{tmp_path}/pipe}}")
