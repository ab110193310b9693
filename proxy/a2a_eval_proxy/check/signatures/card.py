"""Verifies the signatures of a card that was fetched: gets the keys, from where they may come from."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
from a2a_tool_capture.environment_proxies import EnvironmentTransport
from a2a_tool_capture.errors import connection_problem

from ...errors import ConfigError
from .result import SignatureResult, SignatureStatus, invalid, not_verifiable

if TYPE_CHECKING:
    from .verify import CardSignature, PublicKey

MAX_KEY_FILE_BYTES = 256 * 1024
KEY_TIMEOUT_S = 10.0
_INSTALL = "pip install 'a2a-eval-proxy[signing]' verifies it"


async def verify_card(
    body: bytes, url: str, card_key: str | None = None, tls: ssl.SSLContext | None = None
) -> tuple[SignatureResult, ...]:
    """Returns a result for each signature of the card with the bytes `body`, fetched from `url`; () without any.

    `card_key` is a file or URL with the keys to trust; then no other key counts, and a card without a verified
    signature is invalid. Without it, keys come from a signature's `jku` if that is on the origin of `url`: an agent
    could name any address there. Raises ConfigError for keys that cannot be read.
    """
    try:
        from .verify import MAX_CARD_BYTES, canonical_forms, decode_strictly, read_signatures, verify
    except ImportError:
        if card_key is not None:
            raise ConfigError("--card-key needs the extra `signing`: pip install 'a2a-eval-proxy[signing]'") from None
        return (not_verifiable("signatures", _INSTALL),) if b'"signatures"' in body else ()
    trusted = None if card_key is None else await _keys_of_flag(card_key, tls)
    if b'"signatures"' not in body and trusted is None:
        return ()
    try:
        if len(body) > MAX_CARD_BYTES:
            raise ValueError(f"it has more than {MAX_CARD_BYTES} bytes")
        card = decode_strictly(body)
        if not isinstance(card, dict):
            raise ValueError("it is not an object")  # of the card, not of the program
        read = read_signatures(card)
        forms = canonical_forms(card) if read else []
    except ValueError as error:
        return (invalid("signatures", f"the card cannot be verified: {error}"),)
    results = []
    for one in read:
        if isinstance(one, SignatureResult):
            results.append(one)
            continue
        keys = trusted if trusted is not None else await _keys_of_agent(one, url, tls)
        results.append(keys if isinstance(keys, SignatureResult) else verify(one, forms, keys))
    return tuple(results) if trusted is None else _strictly(results)


def _strictly(results: list[SignatureResult]) -> tuple[SignatureResult, ...]:
    """With keys that the user trusts, a signature that none of them verifies is invalid unless another is verified."""
    if not results:
        return (invalid("signatures", "the card has none, but --card-key is given"),)
    if any(result.status is SignatureStatus.VERIFIED for result in results):
        return tuple(results)
    return tuple(replace(result, status=SignatureStatus.INVALID) for result in results)


async def _keys_of_flag(source: str, tls: ssl.SSLContext | None) -> list[PublicKey]:
    """The keys of --card-key. Raises ConfigError."""
    from .verify import read_keys

    try:
        if source.startswith(("http://", "https://")):
            return read_keys(await _fetch(source, tls))
        data = await asyncio.to_thread(_read_file, Path(source))
        return read_keys(data)
    except OSError as error:
        raise ConfigError(f"--card-key {source}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"--card-key {source}: {error}") from None


async def _keys_of_agent(
    signature: CardSignature, url: str, tls: ssl.SSLContext | None
) -> list[PublicKey] | SignatureResult:
    """The keys at the signature's `jku`, or why they cannot be used."""
    from .verify import read_keys

    where, jku = signature.where, signature.jku
    if jku is None:
        return not_verifiable(where, "there is no key: give the agent's public key with --card-key FILE")
    if not _same_origin(jku, url):
        advice = f"to trust it, give --card-key {jku}" if jku.startswith("https://") else "give --card-key FILE"
        return not_verifiable(where, f"its `jku` {jku} is not on the agent's origin, so it is not fetched; {advice}")
    try:
        return read_keys(await _fetch(jku, tls))
    except ValueError as error:
        return not_verifiable(where, f"its `jku` {jku}: {error}")


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(MAX_KEY_FILE_BYTES + 1)
    return _bounded(data)


async def _fetch(url: str, tls: ssl.SSLContext | None) -> bytes:
    """GET without credentials, redirects not followed. Raises ValueError with the reason."""
    data = bytearray()
    try:
        async with (
            asyncio.timeout(KEY_TIMEOUT_S),
            httpx.AsyncClient(transport=EnvironmentTransport(tls or True)) as client,
            client.stream("GET", url) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise ValueError(f"it answered HTTP {response.status_code}")
            async for chunk in response.aiter_bytes():
                data += chunk
                _bounded(data)
    except TimeoutError:
        raise ValueError(f"no answer within {KEY_TIMEOUT_S:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ValueError(f"it cannot be fetched: {connection_problem(error)}") from None
    return bytes(data)


def _bounded(data: bytes | bytearray) -> bytes:
    if len(data) > MAX_KEY_FILE_BYTES:
        raise ValueError(f"it has more than {MAX_KEY_FILE_BYTES} bytes")
    return bytes(data)


def _same_origin(one: str, other: str) -> bool:
    try:
        parts = [urlsplit(url) for url in (one, other)]
        origins = [(part.scheme, part.hostname, part.port or {"https": 443}.get(part.scheme, 80)) for part in parts]
    except ValueError:
        return False
    return origins[0] == origins[1] and parts[0].username is None
