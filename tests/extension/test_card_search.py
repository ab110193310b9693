"""Where the card of an agent is looked for."""

from __future__ import annotations

import json

import pytest
from a2a_tool_capture.card_search import CardAnswer, card_urls, find_card
from a2a_tool_capture.errors import AgentError

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
