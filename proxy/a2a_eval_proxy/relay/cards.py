"""Agent cards: fetched for each request, rewritten to the proxy's URLs, with caching headers for the new card."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Collection, MutableMapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from a2a_tool_capture.json_limits import has_too_many_values

from ..errors import log_once
from ..protocol.agent_card import RewrittenCard, rewrite, rewrite_location
from ..protocol.error_bodies import LocalResponse
from ..protocol.headers import DIGESTS, ClientRequestHeaders, public_url, response_headers
from .negotiation import Negotiation
from .upstream import Upstream, decoded_card

logger = logging.getLogger(__name__)

CONDITIONS = frozenset({b"if-none-match", b"if-modified-since"})
"""Conditions of a request for a card: the proxy checks them, since it serves a card of its own."""
_NOT_FORWARDED = CONDITIONS | {b"accept-encoding", b"range", b"if-range"}
_FOR_SHARED_CACHES = frozenset({b"public", b"private", b"s-maxage"})
_TARGETED = frozenset({b"cdn-cache-control", b"surrogate-control"})
"""Fields that shared caches obey in place of Cache-Control (RFC 9213)."""
_DECIDE_THE_URL = b"forwarded, x-forwarded-host, x-forwarded-proto, x-forwarded-prefix"
_RECOMPUTED = frozenset({b"content-length", b"etag", b"last-modified", b"content-encoding", *DIGESTS})


class Cards:
    """Serves the agent's card with the proxy's URLs. Keeps no card; negotiation learns from each one."""

    def __init__(
        self,
        upstream: Upstream,
        negotiation: Negotiation,
        *,
        public_url_is_fixed: bool,
        hosts: Collection[str] | None = None,
    ) -> None:
        """`public_url_is_fixed`: the URLs in a card do not depend on the request.

        `hosts`: the names by which calls over gRPC reach the agent, where it is one of several; None: any.
        """
        self._hosts = hosts
        self._public_url_is_fixed = public_url_is_fixed
        self._upstream = upstream
        self._negotiation = negotiation
        self.grpc_port: int | None = None
        """Where clients of the proxy speak gRPC, on the host of its public URL; None: nowhere."""
        self.url = ""
        """Where HTTP reaches the agent on the data port."""

    async def respond(self, scope: MutableMapping[str, Any], head: ClientRequestHeaders, public: str) -> LocalResponse:
        """The response to a request for the agent's card. Raises UpstreamError.

        The proxy checks the condition of a conditional request, and does not send it to the agent.
        """
        upstream = self._upstream
        headers = upstream.headers([item for item in head.forward if item[0] not in _NOT_FORWARDED])
        response, body = await upstream.get(upstream.target(scope["raw_path"], scope["query_string"]), headers)
        raw = response_headers(response.headers)
        if b"location" in response.fields:
            raw = self.with_public_location(raw, public)
        if response.status != 200:
            return LocalResponse(response.status, raw, body)
        changed = None
        try:
            card = _decoded(decoded_card(response, body))
        except (ValueError, RecursionError) as error:
            text = f"the agent card could not be read; its URLs may lead past the proxy: {error}"
            log_once(logger, text, level=logging.WARNING)
            card = None
        if isinstance(card, dict):
            if scope["path"] in upstream.card_paths or not self._negotiation.known:  # one elsewhere may be another's
                self._negotiation.learn(card, asyncio.get_running_loop().time())
            rewritten = self.rewritten(card, public)
            changed = _encoded(rewritten.card) if rewritten.changed else None
        return self._cacheable(LocalResponse(200, raw, body), changed, head, private=not self._public_url_is_fixed)

    def extended(
        self, response: LocalResponse, decoded: bytes, head: ClientRequestHeaders, public: str, *, in_envelope: bool
    ) -> LocalResponse:
        """The agent's `response` to a request for its extended card; `decoded` is its body without content coding.

        Other callers may get another card, so a changed card is for its caller alone. The response to a JSON-RPC
        request (`in_envelope`) has no validators.
        """
        try:
            content = _decoded(decoded)
        except (ValueError, RecursionError):
            content = None
        card = content.get("result") if in_envelope and isinstance(content, dict) else content
        rewritten = self.rewritten(card, public) if isinstance(card, dict) else None
        changed = None
        if rewritten is not None and rewritten.changed:
            changed = _encoded({**content, "result": rewritten.card} if in_envelope else rewritten.card)
        if response.status == 200 and not in_envelope:
            return self._cacheable(response, changed, head, private=True)
        if changed is None:
            return response
        return LocalResponse(response.status, _without_recomputed(response.headers), changed)

    def _cacheable(
        self, response: LocalResponse, changed: bytes | None, head: ClientRequestHeaders, *, private: bool
    ) -> LocalResponse:
        """The response to a GET, with the body `changed` unless that is None, and caching headers to match.

        `private`: a changed card is for its caller alone.
        """
        headers, body = response.headers, response.body
        if changed is not None:
            body = changed
            etag = f'W/"{hashlib.sha256(body).hexdigest()}"'.encode()
            headers = [*_without_recomputed(headers), (b"etag", etag)]
        else:  # the next client's card may be another
            private = bool(head.forwarded) and not self._public_url_is_fixed
        if private:
            headers = _for_one_client(headers)
        return _unless_known(LocalResponse(200, headers, body), dict(head.forward))

    def with_public_location(self, headers: list[tuple[bytes, bytes]], public: str) -> list[tuple[bytes, bytes]]:
        """Response headers in which a `Location` under the upstream's URL is one under the proxy's."""
        located = [
            (name, rewrite_location(value.decode("latin-1"), self._upstream.base, public).encode("latin-1"))
            if name.lower() == b"location"
            else (name, value)
            for name, value in headers
        ]
        return located if located == headers or self._public_url_is_fixed else _for_one_client(located)

    def public_url(self, call: ClientRequestHeaders, configured: str | None) -> str:
        """The public URL as far as the metadata of a gRPC `call` shows it, which has no `Host`."""
        own = urlsplit(self.url)
        return configured or public_url(replace(call, host=own.netloc), own.scheme, None) + own.path

    def rewritten(self, card: dict[str, Any], public: str) -> RewrittenCard:
        """The card with the proxy's URLs; each finding is logged once."""
        rewritten = rewrite(card, self._upstream.base, public, self._grpc(public))
        for finding in rewritten.findings:
            log_once(logger, finding.message, level=logging.WARNING)
        return rewritten

    def _grpc(self, public: str) -> str | None:
        """HOST:PORT for clients that speak gRPC; None where none leads to the agent."""
        host = urlsplit(public).hostname or ""
        if self._hosts is not None and host not in self._hosts:
            host = next(iter(self._hosts), "")
        if self.grpc_port is None or not host:
            return None
        return f"{f'[{host}]' if ':' in host else host}:{self.grpc_port}"


def _without_recomputed(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [item for item in headers if item[0].lower() not in _RECOMPUTED]


def _for_one_client(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of a response whose URLs depend on its request: no shared cache gives it to other clients."""
    words = [b"private"]
    kept = []
    for name, value in headers:
        if name.lower() == b"cache-control":
            listed = (word.strip() for word in value.split(b","))
            words += [word for word in listed if word and word.lower().partition(b"=")[0] not in _FOR_SHARED_CACHES]
        elif name.lower() not in _TARGETED:
            kept.append((name, value))
    return [*kept, (b"cache-control", b", ".join(words)), (b"vary", _DECIDE_THE_URL)]


def _decoded(body: bytes) -> Any:
    """The JSON value of a body, for `_encoded`. JavaScript clients read on after an invalid byte."""
    if has_too_many_values(body):
        raise ValueError("too many values")
    return json.loads(body.decode(json.detect_encoding(body), errors="surrogateescape"))


def _encoded(content: Any) -> bytes:
    try:
        return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can spell
        return json.dumps(content, separators=(",", ":")).encode()


def _unless_known(response: LocalResponse, request: dict[bytes, bytes]) -> LocalResponse:
    """304 where the client already has this entity (RFC 9110, sections 13.1.2 and 13.1.3)."""
    validators = {name.lower(): value for name, value in response.headers}
    if b"if-none-match" in request:
        etag = validators.get(b"etag", b"")
        tags = [tag.strip().removeprefix(b"W/") for tag in request[b"if-none-match"].split(b",")]
        known = bool(etag) and (etag.removeprefix(b"W/") in tags or b"*" in tags)
    else:
        since = request.get(b"if-modified-since")
        known = since is not None and since == validators.get(b"last-modified")
    if not known:
        return response
    return LocalResponse(
        304, [item for item in response.headers if item[0].lower() not in (b"content-length", b"content-type")], b""
    )
