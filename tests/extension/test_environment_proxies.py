"""Which requests go through a proxy of the environment."""

from __future__ import annotations

from urllib.request import getproxies_environment

import httpx
import pytest
from a2a_tool_capture.client import CaptureClient
from a2a_tool_capture.environment_proxies import proxy_for
from a2a_tool_capture.errors import AgentUnreachableError, ConfigurationError
from agents.scenario_agent import scenario_agent

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
