"""The agent as an HTTP origin: its paths, headers and card."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any
from urllib.parse import urlsplit

from a2a_tool_capture.errors import ConfigurationError
from a2a_tool_capture.secret_references import referenced_files, resolve_header

from ..errors import ConfigError
from ..net.file_watcher import FileWatch
from ..net.http_client import HttpClient, RawHeaders, SentRequest, UpstreamError
from ..net.tls import TlsFiles
from ..protocol.content_coding import decoded_whole
from ..settings.parts import AgentSettings

logger = logging.getLogger(__name__)

CARD_TIMEOUT_S = 5.0
MAX_CARD_BYTES = 4 * 1024 * 1024


def decoded_card(response: SentRequest, body: bytes) -> bytes:
    """The card in a response, which may be compressed all the same. Raises ValueError."""
    return decoded_whole(response.fields.get(b"content-encoding", b"").decode("latin-1"), body, MAX_CARD_BYTES)


class Upstream:
    """Requests to the agent at `settings.upstream`."""

    def __init__(self, settings: AgentSettings, files: FileWatch) -> None:
        """Certificates and secrets are read from files, and again when `files` finds them replaced.

        Raises ConfigError where they cannot be used.
        """
        parts = urlsplit(settings.upstream)
        secure = parts.scheme == "https"
        self.base = settings.upstream
        """Under which the agent's card names its interfaces."""
        self.authority = parts.netloc.rpartition("@")[2].encode()
        self._prefix = parts.path.encode()
        self.card_paths = settings.card_paths
        self.is_reachable = True
        """Whether the agent could be reached last."""
        self.http = HttpClient(
            parts.hostname or "",
            parts.port or (443 if secure else 80),
            connect_timeout_s=settings.timeouts.connect,
            response_timeout_s=settings.timeouts.response,
            max_connections=settings.limits.agent_connections,
            max_header_bytes=settings.limits.header_bytes,
        )
        self._configured = settings.upstream_header
        self._replaced = frozenset(name.lower().encode() for name, _ in self._configured)
        references = [path for _, value in self._configured for path in referenced_files(value)]
        files.add("the headers for the agent", references, self._load_headers)
        if secure:
            self._tls = TlsFiles.of(settings.upstream_tls, "upstream_tls.")
            files.add("TLS to the agent", self._tls.paths, self._load_tls)

    def _load_headers(self) -> None:
        try:
            filled = [(name.lower().encode(), resolve_header(name, value).encode()) for name, value in self._configured]
        except ConfigurationError as error:
            raise ConfigError(f"upstream_header: {error}") from None
        self.own_headers = [(b"host", self.authority), *filled]

    def _load_tls(self) -> None:
        self.http.tls = self._tls.client_context()

    def reached(self, problem: str = "") -> None:
        """The agent has answered, or cannot be reached, for this reason: logged when that changes."""
        if self.is_reachable == bool(problem):
            logger.warning("%s", problem or f"the agent at {self.base} answers again")
        self.is_reachable = not problem

    def headers(self, forwarded: RawHeaders, *, has_host: bool = True) -> RawHeaders:
        """The headers of a request to the agent: `Host` (none in gRPC metadata), the configured ones, then `forwarded`
        (names in lower case) without those that are configured. All names are in lower case, as HTTP/2 requires."""
        if self._replaced:
            forwarded = [item for item in forwarded if item[0] not in self._replaced]
        return [*(self.own_headers if has_host else self.own_headers[1:]), *forwarded]

    def target(self, raw_path: bytes, query: bytes) -> bytes:
        """The request target at the agent, byte for byte what the client sent."""
        path = self._prefix + raw_path or b"/"
        return path + b"?" + query if query else path

    async def get(self, target: bytes, headers: RawHeaders) -> tuple[SentRequest, bytes]:
        """GET a card, not compressed. Raises UpstreamError, also where it exceeds `MAX_CARD_BYTES`."""
        response = await self.http.request(b"GET", target, [*headers, (b"accept-encoding", b"identity")])
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
        """The agent's card, decoded. Raises UpstreamError (no response), TimeoutError, or ValueError (no card)."""
        async with asyncio.timeout(CARD_TIMEOUT_S):
            for path in self.card_paths:
                response, body = await self.get(
                    self.target(path.encode(), b""), self.headers([(b"accept", b"application/json")])
                )
                if response.status == 200:
                    return json.loads(decoded_card(response, body))
        raise ValueError(f"no agent card at {self.base} ({', '.join(self.card_paths)})")
