"""Agent cards through the proxy: every address in them leads back to the proxy, and no shared cache keeps them."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

import pytest
from agents.replay_agent import Answer, ReplayAgent
from agents.scenarios import URI
from e2e.contracts import GetAgent, GetProxy
from e2e.raw_http import Headers, RawResponse, exchange
from support.proxy import Proxy
from support.recordings import RECORDED_AT, Recording

CARD = "/.well-known/agent-card.json"
EXTENDED = ["/extendedAgentCard", "/v1/card", "/agent/authenticatedExtendedCard"]


def bases(response: RawResponse) -> set[str]:
    """Where the interfaces of a card lead, without their paths."""
    card = json.loads(response.body)
    entries = [*card.get("supportedInterfaces", []), *card.get("additionalInterfaces", []), card]
    return {entry["url"].split("/a2a/")[0] for entry in entries if "url" in entry}


def get(url: str, path: str = CARD, headers: Headers | None = None) -> RawResponse:
    return exchange(url, f"GET {path} HTTP/1.1", headers or [])


CACHED = (
    b"cache-control: public, max-age=3600, s-maxage=7200\r\ncdn-cache-control: max-age=1\r\nsurrogate-control: x\r\n"
)


@pytest.mark.parametrize("caching", [CACHED, b"expires: Fri, 01 Jan 2100\r\n"])
@pytest.mark.parametrize("named", ["attacker.example", "the agent itself"])
def test_no_shared_cache_gives_a_card_to_others(
    named: str, caching: bytes, replay: ReplayAgent, proxy_of: GetProxy
) -> None:
    """Anybody may say in a header which host the card names, the agent's own among them, which bypasses the proxy.

    RFC 9111, section 3; RFC 9213."""
    card = b'{"url":"%b/rpc"}' % replay.url.encode()
    replay.card = Answer([b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\n\r\n%b" % (caching, len(card), card)])
    host = replay.authority if named == "the agent itself" else named

    response = get(proxy_of(replay.url).url, headers=[("X-Forwarded-Host", host)])

    assert json.loads(response.body)["url"].startswith(f"http://{host}/")
    control = (response.header("cache-control") or "").replace(" ", "").split(",")
    assert "private" in control
    assert not [word for word in control if word == "public" or word.startswith("s-maxage")]
    assert response.header("cdn-cache-control") is response.header("surrogate-control") is None
    assert "x-forwarded-host" in (response.header("vary") or "")


def test_conditional_requests(agent: GetAgent, proxy_of: GetProxy) -> None:
    """The tag belongs to the rewritten card: the agent's own tag does not match it."""
    upstream = agent("v1")
    url = proxy_of(upstream).url
    tag, foreign_tag = (get(one).header("etag") or "" for one in (url, upstream))

    unchanged = get(url, headers=[("If-None-Match", tag)])

    assert (unchanged.status, unchanged.body, unchanged.header("etag")) == (304, b"", tag)
    assert get(url, headers=[("If-None-Match", foreign_tag)]).status == 200


def signed_card(replay: ReplayAgent) -> bytes:
    text = Recording.load("card").text.replace(RECORDED_AT, replay.authority)
    card = json.loads(Recording("card", text).response_body)
    return json.dumps(card | {"signatures": [{"protected": "eyJhbGciOiJFUzI1NiJ9", "signature": "c2ln"}]}).encode()


def packed(coding: str, body: bytes) -> Answer:
    for name in coding.split(", "):
        body = gzip.compress(body) if name == "gzip" else zlib.compress(body)
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: %b\r\ncontent-length: %d\r\n\r\n"
    return Answer([head % (coding.encode(), len(body)) + body])


def test_a_card_that_comes_compressed_leads_to_the_proxy(replay: ReplayAgent, tmp_path: Path) -> None:
    """Though no client asked for that; the extension that it declares is known as well. Its signature is gone."""
    replay.card = packed("gzip", signed_card(replay))
    with Proxy(replay.url, tmp_path / "turns.db") as proxy:
        replay.prepare(Answer([b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"]))
        exchange(proxy.url, "GET /tasks/t HTTP/1.1", [])
        assert URI in [value for name, value in replay.received[0].headers if name == "a2a-extensions"]
        for coding in ("gzip", "deflate", "gzip, deflate"):
            replay.card = packed(coding, signed_card(replay))
            response = get(proxy.url, headers=[("Accept-Encoding", "br"), ("Range", "bytes=0-9"), ("If-Range", '"x"')])
            sent = dict(replay.card_request.headers)
            assert (sent["accept-encoding"], "range" in sent, "if-range" in sent) == ("identity", False, False)
            assert response.header("content-encoding") is None
            assert bases(response) == {proxy.url}
            assert b"signatures" not in response.body


@pytest.mark.parametrize("path", EXTENDED)
def test_compressed_extended_cards_lead_to_the_proxy(path: str, replay: ReplayAgent, proxy_of: GetProxy) -> None:
    proxy = proxy_of(replay.url)
    replay.prepare(packed("gzip", signed_card(replay)))
    response = get(proxy.url, path, [("Accept-Encoding", "gzip")])
    assert response.header("content-encoding") is None
    assert bases(response) == {proxy.url}
