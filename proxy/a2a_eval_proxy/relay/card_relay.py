"""Agent cards on their way through: fetched for each request, rewritten, with caching headers of their own."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import MutableMapping
from typing import Any

from ..protocol.agent_card import RewrittenCard, rewrite, rewrite_location
from ..protocol.error_bodies import Answer
from ..protocol.headers import DIGESTS, ClientRequestHeaders, response_headers
from ..protocol.json_density import is_dense
from .negotiation import Negotiation
from .upstream import Upstream

logger = logging.getLogger(__name__)

CONDITIONS = frozenset({b"if-none-match", b"if-modified-since"})
"""Of a request for a card: the proxy checks them, since the card it serves is its own."""
_NOT_FORWARDED = CONDITIONS | {b"accept-encoding"}
_FOR_SHARED_CACHES = frozenset({b"public", b"private", b"s-maxage"})
_TARGETED = frozenset({b"cdn-cache-control", b"surrogate-control"})
"""What shared caches heed in place of Cache-Control (RFC 9213)."""
_DECIDE_THE_URL = b"forwarded, x-forwarded-host, x-forwarded-proto, x-forwarded-prefix"
_RECOMPUTED = frozenset({b"content-length", b"etag", b"last-modified", b"content-encoding", *DIGESTS})


class CardRelay:
    """Serves the agent's card with the proxy's URLs. Nothing is kept but what negotiation knows."""

    def __init__(self, upstream: Upstream, negotiation: Negotiation, *, public_url_is_fixed: bool) -> None:
        """`public_url_is_fixed`: the URLs in a card do not depend on what the request says."""
        self._public_url_is_fixed = public_url_is_fixed
        self._upstream = upstream
        self._negotiation = negotiation
        self._warned: set[str] = set()

    async def answer(self, scope: MutableMapping[str, Any], head: ClientRequestHeaders, public: str) -> Answer:
        """The agent's answer to a request for its card. Raises UpstreamError.

        The condition of a conditional request is ours to check, since the entity is: upstream it is left out.
        """
        upstream = self._upstream
        headers = upstream.headers([item for item in head.forward if item[0] not in _NOT_FORWARDED])
        response, body = await upstream.get(upstream.target(scope["raw_path"], scope["query_string"]), headers)
        raw = response_headers(response.headers)
        if b"location" in response.fields:
            raw = self.with_public_location(raw, public)
        if response.status != 200:
            return Answer(response.status, raw, body)
        rewritten = self._rewritten(body, public, teaches=scope["path"] in upstream.card_paths)
        changed = _encoded(rewritten.card) if rewritten is not None and rewritten.changed else None
        return self._cacheable(Answer(200, raw, body), changed, head, private=not self._public_url_is_fixed)

    def extended(
        self, answer: Answer, decoded: bytes, head: ClientRequestHeaders, public: str, *, in_envelope: bool
    ) -> Answer:
        """The agent's `answer` to a request for its extended card, of which `decoded` is the body without its coding.

        Whoever else asks may get another card: a changed one is for its caller alone. The answer to a JSON-RPC
        request (`in_envelope`) has no validators.
        """
        content = self._rewritten_extended(decoded, public, in_envelope=in_envelope)
        changed = None if content is decoded else content
        if answer.status == 200 and not in_envelope:
            return self._cacheable(answer, changed, head, private=True)
        return answer if changed is None else Answer(answer.status, _without_recomputed(answer.headers), changed)

    def _cacheable(self, answer: Answer, changed: bytes | None, head: ClientRequestHeaders, *, private: bool) -> Answer:
        """The answer to a GET with `changed` as its body, if it is, and caching headers that are right for it.

        `private`: a changed card is for its caller alone.
        """
        headers, body = answer.headers, answer.body
        if changed is not None:
            body = changed
            etag = f'W/"{hashlib.sha256(body).hexdigest()}"'.encode()
            headers = [*_without_recomputed(headers), (b"etag", etag)]
        else:  # the next client's card may be another
            private = bool(head.forwarded) and not self._public_url_is_fixed
        if private:
            headers = _for_one_client(headers)
        return _unless_known(Answer(200, headers, body), dict(head.forward))

    def _rewritten_extended(self, body: bytes, public: str, *, in_envelope: bool) -> bytes:
        """The extended card in a response body (in a JSON-RPC `result`, or bare); `body` itself if unchanged."""
        try:
            content = _decoded(body)
        except (ValueError, RecursionError):
            return body
        card = content.get("result") if in_envelope and isinstance(content, dict) else content
        if not isinstance(card, dict):
            return body
        rewritten = rewrite(card, self._upstream.base, public)
        self._warn(rewritten)
        if not rewritten.changed:
            return body
        if in_envelope:
            content["result"] = rewritten.card
        else:
            content = rewritten.card
        return _encoded(content)

    def with_public_location(self, headers: list[tuple[bytes, bytes]], public: str) -> list[tuple[bytes, bytes]]:
        """Headers of an answer in which a `Location` that names the upstream names the proxy."""
        located = [
            (name, rewrite_location(value.decode("latin-1"), self._upstream.base, public).encode("latin-1"))
            if name.lower() == b"location"
            else (name, value)
            for name, value in headers
        ]
        return located if located == headers or self._public_url_is_fixed else _for_one_client(located)

    def _rewritten(self, body: bytes, public: str, *, teaches: bool) -> RewrittenCard | None:
        try:
            card = _decoded(body)
        except (ValueError, RecursionError):
            return None
        if not isinstance(card, dict):
            return None
        if teaches or not self._negotiation.known:  # a card elsewhere may be another agent's
            self._negotiation.learn(card, asyncio.get_running_loop().time())
        rewritten = rewrite(card, self._upstream.base, public)
        self._warn(rewritten)
        return rewritten

    def _warn(self, rewritten: RewrittenCard) -> None:
        for finding in rewritten.findings:
            if finding.message not in self._warned and len(self._warned) < 100:
                self._warned.add(finding.message)
                logger.warning("%s", finding.message)


def _without_recomputed(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [item for item in headers if item[0].lower() not in _RECOMPUTED]


def _for_one_client(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of an answer whose URLs follow its request, so that no shared cache gives it to others."""
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
    """The JSON value of a body, as `_encoded` takes it. JavaScript clients read on after a wrong byte."""
    if is_dense(body):
        raise ValueError("too many values")
    return json.loads(body.decode(json.detect_encoding(body), errors="surrogateescape"))


def _encoded(content: Any) -> bytes:
    try:
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can spell
        return json.dumps(content, separators=(",", ":")).encode()


def _unless_known(answer: Answer, request: dict[bytes, bytes]) -> Answer:
    """304 where the client already has this entity (RFC 9110, sections 13.1.2 and 13.1.3)."""
    validators = {name.lower(): value for name, value in answer.headers}
    if b"if-none-match" in request:
        etag = validators.get(b"etag", b"")
        tags = [tag.strip().removeprefix(b"W/") for tag in request[b"if-none-match"].split(b",")]
        known = bool(etag) and (etag.removeprefix(b"W/") in tags or b"*" in tags)
    else:
        since = request.get(b"if-modified-since")
        known = since is not None and since == validators.get(b"last-modified")
    if not known:
        return answer
    kept = [item for item in answer.headers if item[0].lower() not in (b"content-length", b"content-type")]
    return Answer(304, kept, b"")
