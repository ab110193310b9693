"""The agent as an HTTP origin: where its paths are, and what its card says."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import Any
from urllib.parse import urlsplit

from .config import Settings
from .http1 import HttpClient, RawHeaders, Response, UpstreamError

_CARD_TIMEOUT_S = 5.0
MAX_CARD_BYTES = 4 * 1024 * 1024


class Upstream:
    """Requests to the agent at `settings.upstream`."""

    def __init__(self, settings: Settings) -> None:
        parts = urlsplit(settings.upstream)
        secure = parts.scheme == "https"
        self.base = settings.upstream
        self.authority = parts.netloc.rpartition("@")[2].encode()
        self._prefix = parts.path.encode()
        self.card_paths = settings.card_paths
        self.http = HttpClient(
            parts.hostname or "",
            parts.port or (443 if secure else 80),
            tls=ssl.create_default_context() if secure else None,
            connect_timeout_s=settings.connect_timeout,
            response_timeout_s=settings.response_timeout,
            max_connections=settings.max_connections,
            max_header_bytes=settings.max_header_bytes,
        )

    def target(self, raw_path: bytes, query: bytes) -> bytes:
        """The request target at the agent, byte for byte what the client sent."""
        path = self._prefix + raw_path
        return path + b"?" + query if query else path

    async def get(self, target: bytes, headers: RawHeaders) -> tuple[Response, bytes]:
        """GET a small document whole. Raises UpstreamError, also where it exceeds `MAX_CARD_BYTES`."""
        response = await self.http.request(b"GET", target, headers)
        try:
            chunks: list[bytes] = []
            size = 0
            while chunk := await response.read():
                chunks.append(chunk)
                size += len(chunk)
                if size > MAX_CARD_BYTES:
                    raise UpstreamError(f"the agent card exceeds {MAX_CARD_BYTES} bytes")
            return response, b"".join(chunks)
        finally:
            response.close()

    async def fetch_card(self) -> Any:
        """The agent's card, decoded. Raises UpstreamError (no answer), TimeoutError, or ValueError (no card there)."""
        async with asyncio.timeout(_CARD_TIMEOUT_S):
            for path in self.card_paths:
                headers = [(b"host", self.authority), (b"accept", b"application/json")]
                response, body = await self.get(self.target(path.encode(), b""), headers)
                if response.status == 200:
                    return json.loads(body)
        raise ValueError(f"no agent card at {self.base} ({', '.join(self.card_paths)})")
