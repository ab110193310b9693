"""Where the card of an agent may be: below its URL or at its origin, under the name of A2A 1.0 or that of 0.3."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from .errors import GATEWAYS, AgentError, AgentUnreachableError, is_web_page, response_problem
from .json_values import read_json

WELL_KNOWN_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
_OF_CARDS = frozenset({"supportedInterfaces", "url", "name", "skills", "capabilities"})


_log = logging.getLogger(__name__)

_NOTHING = "no agent card found; is it an A2A agent?"


class CardAnswer(NamedTuple):
    """What a server answered to the request for a card; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class FoundCard(NamedTuple):
    """The card as JSON, its URL, and its bytes."""

    card: dict[str, Any]
    url: str
    body: bytes


def card_urls(url: str) -> list[str]:
    """Where the card of the agent at `url` may be, which may be the URL of its card."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    for known in WELL_KNOWN_PATHS:
        path = path.removesuffix(known)
    whole = [path] if path.endswith(".json") else [path + known for known in WELL_KNOWN_PATHS]
    paths = dict.fromkeys([*whole, *WELL_KNOWN_PATHS])
    return [parts._replace(path=each, fragment="").geturl() for each in paths]


async def find_card(urls: list[str], fetch: Callable[[str], Awaitable[CardAnswer]]) -> FoundCard:
    """The first card at `urls`. Raises AgentError or AgentUnreachableError if there is none, and what `fetch` does."""
    problems: list[AgentError | AgentUnreachableError] = []
    missing: list[tuple[str, str]] = []
    for url in urls:
        answer = await fetch(url)
        found = _object(answer)
        if found is not None and _OF_CARDS & found.keys():
            _remark(urls, url, found)
            return FoundCard(found, url, answer.body)
        if answer.status in (404, 410):
            said = response_problem(answer.status, answer.headers, answer.body.decode("utf-8", "replace"))
            missing.append((url, _NOTHING if said.lower() in ("", "not found") else said))
            continue
        problems.append(_problem(url, answer))
    if problems:
        raise problems[0]
    (first, said), *others = missing
    elsewhere = f"there is no card at {', '.join(url for url, _ in others)}; " if others else ""
    raise AgentError(f"{elsewhere}{first} answered HTTP 404: {said}")


def _remark(urls: list[str], url: str, card: dict[str, Any]) -> None:
    """Say that the card was found at the origin only, unless it names the URL that was given: a path that is mistyped
    would be that of another agent."""
    given = urls[0].removesuffix(WELL_KNOWN_PATHS[0])
    if url in urls[-len(WELL_KNOWN_PATHS) :] and len(urls) > len(WELL_KNOWN_PATHS) and given not in json.dumps(card):
        _say_once(given, url, str(card.get("name"))[:100])


@lru_cache
def _say_once(given: str, url: str, name: str) -> None:
    _log.warning("there is no agent card at %s; talking to the agent of %s (%r) instead", given, url, name)


def _object(answer: CardAnswer) -> dict[str, Any] | None:
    try:
        found = read_json(answer.body.decode()) if 200 <= answer.status < 300 else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _problem(url: str, answer: CardAnswer) -> AgentError | AgentUnreachableError:
    text = answer.body.decode("utf-8", "replace")
    if 200 <= answer.status < 300:
        what = "a web page" if is_web_page(answer.headers, text) else "expected the JSON of a card"
        return AgentError(f"{url} answered with no agent card ({what}); is it an A2A agent?")
    kind = AgentUnreachableError if answer.status in GATEWAYS else AgentError
    problem = response_problem(answer.status, answer.headers, text, url)
    return kind(f"{url} answered HTTP {answer.status}: {problem}".rstrip(": "))
