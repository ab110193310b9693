"""TLS of the gRPC port, and to the agent, from the files of `net.tls`. gRPC has an OpenSSL of its own."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import grpc

from ..errors import ConfigError
from ..net.file_watcher import FileWatch
from ..net.tls import TlsFiles
from ..settings import Settings


def server_credentials(settings: Settings, files: FileWatch) -> Any:
    """grpc.ServerCredentials for `tls_cert`, `tls_key` and `tls_client_ca`; None: plain text. Raises ConfigError.

    Every new connection uses the current files.
    """
    if settings.tls_cert is None:
        return None
    tls = _files(settings, "tls", "tls_client_ca")
    current: list[Any] = []

    def load() -> None:
        tls.server_context()  # says what is wrong with them
        key, cert, ca = _contents(tls)
        current[:] = [grpc.ssl_server_certificate_configuration([(key, cert)], ca)]

    files.add("TLS for clients over gRPC", tls.paths, load)
    return grpc.dynamic_ssl_server_credentials(
        current[0], lambda: current[0], require_client_authentication=settings.tls_client_ca is not None
    )


class ChannelTls:
    """TLS to the agent, for `upstream_ca`, `upstream_cert` and `upstream_key`."""

    def __init__(self, settings: Settings, files: FileWatch) -> None:
        """Raises ConfigError."""
        self._tls = _files(settings, "upstream", "upstream_ca")
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


def _files(settings: Settings, setting: str, ca_setting: str) -> TlsFiles:
    files = TlsFiles.of(settings, setting, ca_setting=ca_setting)
    if files.key_password is not None:
        raise ConfigError(f"{setting}_key_password: gRPC cannot read an encrypted key; expected one without password")
    return files


def _contents(files: TlsFiles) -> tuple[bytes | None, ...]:
    """Key, certificate chain and authorities."""
    return tuple(None if path is None else Path(path).read_bytes() for path in (files.key, files.cert, files.ca))
