"""Connections to the agent's gRPC port, with TLS from the files of `net.tls`, and its card from there."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from ..errors import ConfigError
from ..grpc_relay.messages import METHODS, as_json, decoded
from ..net.file_watcher import FileWatch
from ..net.http_client import UpstreamError
from ..net.tls import TlsFiles
from ..relay.upstream import CARD_TIMEOUT_S, Upstream
from ..settings.settings import AgentSettings
from .metadata import from_headers


class ChannelTls:
    """TLS to the agent, for `upstream_ca`, `upstream_cert` and `upstream_key`."""

    def __init__(self, settings: AgentSettings, files: FileWatch) -> None:
        """Raises ConfigError."""
        self._tls = TlsFiles.of(settings, "upstream", ca_setting="upstream_ca")
        if self._tls.key_password is not None:
            raise ConfigError(
                "upstream_key_password: --transcode cannot read an encrypted key; expected one without password"
            )
        self.credentials: Any = None  # grpc.ChannelCredentials; another object once a file was replaced
        files.add("TLS to the agent over gRPC", self._tls.paths, self._load)

    def _load(self) -> None:
        self._tls.client_context()  # says what is wrong with them
        files = (self._tls.key, self._tls.cert, self._tls.ca)
        key, cert, ca = (None if path is None else Path(path).read_bytes() for path in files)
        system = ssl.get_default_verify_paths().cafile
        if ca is None and system is not None:  # gRPC would use authorities of its own
            ca = Path(system).read_bytes()
        self.credentials = grpc.ssl_channel_credentials(ca, key, cert)


_OPTIONS = (
    ("grpc.enable_retries", 0),  # the client's to do
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),  # an agent that is back is found at once
    ("grpc.max_reconnect_backoff_ms", 1_000),
)
_CARD_METHODS = (("/lf.a2a.v1.A2AService/GetExtendedAgentCard", "1.0"), ("/a2a.v1.A2AService/GetAgentCard", "0.3"))


def sizes(settings: AgentSettings) -> tuple[tuple[str, int], ...]:
    """Options for the size of messages, metadata and windows, in both directions."""
    body, header = settings.max_body_bytes, settings.max_header_bytes
    return (
        ("grpc.max_receive_message_length", body),
        ("grpc.max_send_message_length", body),
        ("grpc.max_metadata_size", header),  # beyond it gRPC refuses some calls, and all beyond the absolute limit
        ("grpc.absolute_max_metadata_size", header),
        ("grpc.http2.bdp_probe", 0),  # it lets senders get MBs ahead of a client that does not read
    )


class AgentChannel:
    """The channel to the agent; another one once the agent's card names another address, or a certificate changed."""

    def __init__(self, settings: AgentSettings, files: FileWatch) -> None:
        """Raises ConfigError."""
        self._options = (*sizes(settings), *_OPTIONS)
        self._tls = ChannelTls(settings, files) if settings.upstream_is_secure else None
        self._target = ""
        self._credentials: Any = None
        self._channel: grpc.aio.Channel | None = None

    def to(self, target: str) -> grpc.aio.Channel:
        """A channel to HOST:PORT. Calls on an earlier one continue."""
        credentials = None if self._tls is None else self._tls.credentials
        if self._channel is None or target != self._target or credentials is not self._credentials:
            self._target, self._credentials = target, credentials
            self._channel = (
                grpc.aio.insecure_channel(target, self._options)
                if credentials is None
                else grpc.aio.secure_channel(target, credentials, self._options)
            )
        return self._channel

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()


async def fetch_card(settings: AgentSettings, upstream: Upstream) -> Any:
    """The extended card of an agent that has only gRPC, as JSON.

    Raises UpstreamError (no response), TimeoutError, or ValueError (no card).
    """
    agent, refusals = AgentChannel(settings, FileWatch()), []
    try:
        async with asyncio.timeout(CARD_TIMEOUT_S):
            channel = agent.to(settings.grpc_upstream or "")
            for path, version in _CARD_METHODS:
                metadata = from_headers(upstream.with_configured([(b"a2a-version", version.encode())]))
                try:
                    data = await channel.unary_unary(path)(b"", metadata=metadata)
                    return as_json(decoded(METHODS[path].response_type, data))
                except grpc.aio.AioRpcError as error:
                    if error.code() is grpc.StatusCode.UNAVAILABLE:
                        raise UpstreamError(error.details()) from None
                    refusals.append(f"{error.code().name}: {error.details()}")
    finally:
        await agent.close()
    raise ValueError(f"no extended agent card at {settings.upstream} ({refusals[0]})")
