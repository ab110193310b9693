"""Agent cards through the proxy: every address in them leads back to the proxy, or the card is left alone."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from agents.replay_agent import Answer, ReplayAgent
from agents.scenarios import URI
from e2e.contracts import GetAgent, GetProxy
from e2e.raw_http import Headers, RawResponse, exchange
from support.proxy import Proxy
from support.recordings import RECORDED_AT, Recording

CARD = "/.well-known/agent-card.json"
CARD_PATHS = [CARD, "/.well-known/agent.json"]


def get(url: str, path: str = CARD, headers: Headers | None = None) -> RawResponse:
    return exchange(url, f"GET {path} HTTP/1.1", headers or [])


def interface_urls(card: Any) -> list[str]:
    entries = [*card.get("supportedInterfaces", []), *card.get("additionalInterfaces", [])]
    return [entry["url"] for entry in entries] + ([card["url"]] if "url" in card else [])


@pytest.mark.parametrize("name", ["v1", "v0.3"])
@pytest.mark.parametrize("path", CARD_PATHS)
def test_every_interface_leads_to_the_proxy(path: str, name: str, agent: GetAgent, proxy_of: GetProxy) -> None:
    upstream = agent(name)
    proxy = proxy_of(upstream)
    direct = json.loads(get(upstream, path).body)

    card = json.loads(get(proxy.url, path).body)

    carried = [url.replace(upstream, proxy.url) for url in interface_urls(direct) if url.startswith(upstream)]
    assert carried
    assert interface_urls(card) == carried
    untouched = {"supportedInterfaces", "additionalInterfaces", "url"}
    assert {key: value for key, value in card.items() if key not in untouched} == {
        key: value for key, value in direct.items() if key not in untouched
    }


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "eval.example.com")], "https://eval.example.com"),
        ([("Forwarded", 'for=1.2.3.4;proto=https;host="eval.example.com:8443"')], "https://eval.example.com:8443"),
    ],
)
def test_public_url_from_forwarding_headers(
    headers: Headers, expected: str, agent: GetAgent, proxy_of: GetProxy
) -> None:
    card = json.loads(get(proxy_of(agent("v1")).url, headers=headers).body)
    assert {url.split("/a2a/")[0] for url in interface_urls(card)} == {expected}


CACHED = b"cache-control: public, max-age=3600, s-maxage=7200"


@pytest.mark.parametrize(
    "caching",
    [CACHED, b"cdn-cache-control: max-age=3600", b"surrogate-control: max-age=3600", b"expires: Fri, 01 Jan 2100"],
)
@pytest.mark.parametrize("host", ["attacker.example", "the agent itself"])
def test_no_shared_cache_gives_a_card_to_others(
    host: str, caching: bytes, replay: ReplayAgent, proxy_of: GetProxy
) -> None:
    """Anybody may say in a header which host the card names, the agent's own among them, which bypasses the proxy."""
    card = b'{"url":"%b/rpc"}' % replay.url.encode()
    proxy = proxy_of(replay.url)
    replay.card = Answer([b"HTTP/1.1 200 OK\r\n%b\r\ncontent-length: %d\r\n\r\n%b" % (caching, len(card), card)])

    response = get(proxy.url, headers=[("X-Forwarded-Host", host.replace("the agent itself", replay.authority))])

    assert_private(response)


def assert_private(response: RawResponse) -> None:
    """No cache that others share may keep it (RFC 9111, section 3; RFC 9213)."""
    control = (response.header("cache-control") or "").replace(" ", "").split(",")
    assert "private" in control
    assert not [word for word in control if word == "public" or word.startswith("s-maxage")]
    assert response.header("cdn-cache-control") is None
    assert response.header("surrogate-control") is None
    assert "x-forwarded-host" in (response.header("vary") or "")


def test_conditional_requests(agent: GetAgent, proxy_of: GetProxy) -> None:
    """The tag belongs to the rewritten card: the agent's own tag does not match it."""
    upstream = agent("v1")
    url = proxy_of(upstream).url
    tag = get(url).header("etag") or ""
    foreign_tag = get(upstream).header("etag") or ""

    unchanged = get(url, headers=[("If-None-Match", tag)])
    foreign = get(url, headers=[("If-None-Match", foreign_tag)])

    assert tag != foreign_tag
    assert (unchanged.status, unchanged.body) == (304, b"")
    assert unchanged.header("etag") == tag
    assert foreign.status == 200


def signed_card(replay: ReplayAgent) -> dict[str, Any]:
    text = Recording.load("card").text.replace(RECORDED_AT, replay.authority)
    card: dict[str, Any] = json.loads(Recording("card", text).response_body)
    return card | {"signatures": [{"protected": "eyJhbGciOiJFUzI1NiJ9", "signature": "c2lnbmF0dXJl"}]}


def card_answer(card: dict[str, Any]) -> Answer:
    body = json.dumps(card).encode()
    return Answer(
        [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)]
    )


def test_signature_of_a_rewritten_card_goes(replay: ReplayAgent, proxy_of: GetProxy) -> None:
    """It would not verify."""
    proxy = proxy_of(replay.url)
    replay.card = card_answer(signed_card(replay))

    card = json.loads(get(proxy.url).body)

    assert "signatures" not in card
    assert replay.authority not in json.dumps(card)


def test_a_card_that_comes_compressed_leads_to_the_proxy(replay: ReplayAgent, tmp_path: Path) -> None:
    """Though no client asked for that; the extension that it declares is known as well."""
    plain = json.dumps(signed_card(replay)).encode()
    packed = {"gzip": gzip.compress(plain), "deflate": zlib.compress(plain)}
    packed["gzip, deflate"] = zlib.compress(packed["gzip"])

    def serve(coding: str) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-encoding: %b\r\ncontent-length: %d\r\n\r\n"
        replay.card = Answer([head % (coding.encode(), len(packed[coding])) + packed[coding]])

    serve("gzip")
    with Proxy(replay.url, tmp_path / "turns.db") as proxy:
        replay.prepare(Answer([b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"]))
        exchange(proxy.url, "GET /tasks/t HTTP/1.1", [])
        assert URI in [value for name, value in replay.received[0].headers if name == "a2a-extensions"]
        for coding in packed:
            serve(coding)
            response = get(proxy.url, headers=[("Accept-Encoding", "br"), ("Range", "bytes=0-9"), ("If-Range", '"x"')])
            sent = dict(replay.card_request.headers)
            assert (sent["accept-encoding"], "range" in sent, "if-range" in sent) == ("identity", False, False)
            assert response.header("content-encoding") is None
            assert {url.split("/a2a/")[0] for url in interface_urls(json.loads(response.body))} == {proxy.url}


def test_redirects_lead_to_the_proxy(replay: ReplayAgent, proxy_of: GetProxy) -> None:
    proxy = proxy_of(replay.url)
    recording = Recording.load("not-found")
    text = recording.text.replace(RECORDED_AT, replay.authority)
    replay.prepare(Recording(recording.name, text).answer())

    response = exchange(proxy.url, recording.request_line, recording.request_headers(asking=True))

    assert response.status == 307
    assert response.header("location") == f"{proxy.url}/no-such/"


EXTENDED = ["/extendedAgentCard", "/v1/card", "/agent/authenticatedExtendedCard"]


@pytest.mark.parametrize("path", EXTENDED)
def test_compressed_extended_cards_lead_to_the_proxy(path: str, replay: ReplayAgent, proxy_of: GetProxy) -> None:
    proxy = proxy_of(replay.url)
    body = gzip.compress(json.dumps(signed_card(replay)).encode())
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(body)
    replay.prepare(Answer([head + body]))

    response = get(proxy.url, path, [("Accept-Encoding", "gzip")])

    assert response.header("content-encoding") is None
    assert {url.split("/a2a/")[0] for url in interface_urls(json.loads(response.body))} == {proxy.url}
