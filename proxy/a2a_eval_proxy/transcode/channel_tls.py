"""TLS to the agent for grpcio, which has an OpenSSL of its own, from the files of `net.tls`."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import grpc

from ..errors import ConfigError
from ..net.file_watcher import FileWatch
from ..net.tls import TlsFiles
from ..settings.settings import AgentSettings


class ChannelTls:
    """TLS to the agent, for `upstream_ca`, `upstream_cert` and `upstream_key`."""

    def __init__(self, settings: AgentSettings, files: FileWatch) -> None:
        """Raises ConfigError."""
        self._tls = TlsFiles.of(settings, "upstream", ca_setting="upstream_ca")
        if self._tls.key_password is not None:
            raise ConfigError(
                "upstream_key_password: --transcode cannot read an encrypted key; expected one without password"
            )
        self.credentials: Any = None
        """grpc.ChannelCredentials; another object once a file was replaced."""
        files.add("TLS to the agent over gRPC", self._tls.paths, self._load)

    def _load(self) -> None:
        self._tls.client_context()  # says what is wrong with them
        key, cert, ca = _contents(self._tls)
        system = ssl.get_default_verify_paths().cafile
        if ca is None and system is not None:  # gRPC would use authorities of its own
            ca = Path(system).read_bytes()
        self.credentials = grpc.ssl_channel_credentials(ca, key, cert)


def _contents(files: TlsFiles) -> tuple[bytes | None, ...]:
    """Key, certificate chain and authorities."""
    return tuple(None if path is None else Path(path).read_bytes() for path in (files.key, files.cert, files.ca))
