"""The clients of the soak: each kind of traffic asks for something of its own and checks all that comes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any

import httpx

from .agent import CARD_PATH, NAME, URI
from .judge import Outcome, Tally

HANGS_AFTER_S = 90.0
"""The longest exchange takes some ten seconds."""


class WrongAnswerError(Exception):
    """What came is not what this client asked for."""


class _LeftError(Exception):
    """The client leaves, as it meant to."""


class _ErrorStatus(Exception):  # noqa: N818 (not an error of this program)
    """The proxy's own answer in the place of the agent's."""


async def keep_asking(number: int, seed: int, http: httpx.AsyncClient, tally: Tally, until: float) -> None:
    """One client: exchange after exchange until that time of the monotonic clock."""
    dice = Random(f"{seed}/{number}")
    count = 0
    while time.monotonic() < until:
        kind = dice.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
        count += 1
        await _exchange(kind, f"{number}-{count}-{dice.randrange(10**6)};", dice, http, tally)


async def _exchange(kind: str, token: str, dice: Random, http: httpx.AsyncClient, tally: Tally) -> None:
    start = time.monotonic()
    outcome, detail = Outcome.ANSWERED, ""
    try:
        async with asyncio.timeout(HANGS_AFTER_S):
            await KINDS[kind][1](token, dice, http)
    except _LeftError:
        outcome = Outcome.LEFT
    except TimeoutError:
        outcome, detail = Outcome.HUNG, token
    except WrongAnswerError as error:
        outcome, detail = Outcome.WRONG, f"{token} {error}"
    except (httpx.HTTPError, _ErrorStatus) as error:
        outcome, detail = Outcome.FAILED, f"{token} {error!r}"
        await asyncio.sleep(0.05)  # the agent may be away for a while
    tally.add(kind, outcome, start, time.monotonic(), detail)


# ── kinds of traffic ────────────────────────────────────────────────────────────────────────────────────────


async def _unary(token: str, dice: Random, http: httpx.AsyncClient) -> None:
    wish = _wish(token, events=dice.randrange(1, 4), size=dice.choice((10, 2_000, 50_000)))
    response = await http.post("/", json=_call("SendMessage", wish))
    _only_own(response.content, token, wish, _status(response))


async def _stream(token: str, dice: Random, http: httpx.AsyncClient) -> None:
    await _streamed(_wish(token, events=dice.randrange(1, 15), size=dice.choice((10, 2_000)), pause_s=0.02), http)


async def _slow(token: str, dice: Random, http: httpx.AsyncClient) -> None:
    """Some megabytes for a client that reads slowly."""
    await _streamed(_wish(token, events=20, size=dice.choice((100_000, 250_000))), http, pause_s=0.02)


async def _leaving(token: str, dice: Random, http: httpx.AsyncClient) -> None:
    """Many leave large texts behind: the proxy reaches its limit for them in the first minutes."""
    wish = _wish(token, events=20, size=dice.choice((10, 200_000, 200_000)), pause_s=0.02)
    await _streamed(wish, http, leave_after=dice.choice((0, 1_000, 500_000, 500_000)))


async def _streamed(
    wish: dict[str, Any], http: httpx.AsyncClient, *, pause_s: float = 0.0, leave_after: int | None = None
) -> None:
    body = bytearray()
    async with http.stream("POST", "/", json=_call("SendStreamingMessage", wish)) as response:
        status = _status(response)
        async for piece in response.aiter_raw(65_536):
            body += piece
            if leave_after is not None and len(body) > leave_after:
                raise _LeftError
            if pause_s:
                await asyncio.sleep(pause_s)
    _only_own(bytes(body), wish["token"], wish, status)
    if b"TASK_STATE_COMPLETED" not in body[-300:]:
        raise WrongAnswerError("the stream ended before its task")


async def _upload(token: str, dice: Random, http: httpx.AsyncClient) -> None:
    pieces = [token.encode() * 4_000] * dice.randrange(1, 60)

    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    response = await http.post("/upload", params={"token": token}, content=body())
    _status(response)
    whole = b"".join(pieces)
    expected = {"token": token, "size": len(whole), "sha256": hashlib.sha256(whole).hexdigest()}
    if response.json() != expected:
        raise WrongAnswerError(f"the agent got {response.text[:200]}, not {expected}")


async def _card(token: str, dice: Random, http: httpx.AsyncClient) -> None:
    response = await http.get(CARD_PATH)
    _status(response)
    if response.json()["name"] != NAME:
        raise WrongAnswerError(f"the card is {response.text[:200]}")


KINDS: dict[str, tuple[int, Callable[[str, Random, httpx.AsyncClient], Awaitable[None]]]] = {
    "unary": (50, _unary),
    "stream": (25, _stream),
    "slow": (4, _slow),
    "leaving": (16, _leaving),
    "upload": (8, _upload),
    "card": (5, _card),
}
"""Weight and doing of each kind."""


def _wish(token: str, *, events: int, size: int, pause_s: float = 0.0) -> dict[str, Any]:
    return {"token": token, "events": events, "size": size, "pause_s": pause_s}


def _call(method: str, wish: dict[str, Any]) -> dict[str, Any]:
    message = {"messageId": wish["token"], "role": "ROLE_USER", "parts": [{"text": json.dumps(wish)}]}
    return {"jsonrpc": "2.0", "id": wish["token"], "method": method, "params": {"message": message}}


def _status(response: httpx.Response) -> int:
    if response.status_code in (502, 503, 504):
        raise _ErrorStatus(f"{response.status_code}")
    if response.status_code != 200:
        raise WrongAnswerError(f"status {response.status_code}")
    return response.status_code


def _only_own(body: bytes, token: str, wish: dict[str, Any], status: int) -> None:
    """That the texts of an answer are this client's, all of them, without the extension that it did not ask for."""
    lines = [line.removeprefix(b"data: ") for line in body.split(b"\n") if line.strip()]
    answers = [json.loads(line) for line in lines]
    if any(answer["id"] != token for answer in answers):
        raise WrongAnswerError(f"the answer is for {[answer['id'] for answer in answers][:3]}")
    text = "".join(_texts(answers))
    expected = token * (1 + wish["size"] // len(token)) * wish["events"]
    if text != expected:
        raise WrongAnswerError(f"the text has {len(text)} characters, not {len(expected)}, or others: {text[:100]}")
    if URI.encode() in body:
        raise WrongAnswerError(f"status {status}, and the answer shows the extension")


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["text"]] if isinstance(value.get("text"), str) else []
        return own + [text for item in value.values() for text in _texts(item)]
    return [text for item in value for text in _texts(item)] if isinstance(value, list) else []
