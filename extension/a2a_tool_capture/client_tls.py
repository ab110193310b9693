"""TLS of a client, over HTTP and over gRPC, which has an OpenSSL of its own."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .errors import ConfigurationError

SECURE_SCHEMES = ("https://", "grpcs://")

HOST = "host"
"""The header that is `:authority` over gRPC, where metadata cannot have it."""

_ENCRYPTED = b"ENCRYPTED"
"""In the header of an encrypted private key in PEM, whether of PKCS 8 or older."""


class ClientTls(ssl.SSLContext):
    """A context whose certificate gRPC can present, too. From any other, Python returns no private key."""

    presented: tuple[Path, Path] | None = None
    """Files (PEM) of the certificate chain and of its key."""

    def load_cert_chain(self, certfile: Any, keyfile: Any = None, password: Any = None) -> None:
        super().load_cert_chain(certfile, keyfile, password)
        self.presented = Path(os.fsdecode(certfile)), Path(os.fsdecode(keyfile or certfile))


def grpc_channel(
    url: str,
    tls: ssl.SSLContext | None,
    options: Sequence[tuple[str, Any]],
    *,
    secure: bool = False,
    headers: Iterable[tuple[str, str]] = (),
) -> Any:
    """A grpc.aio.Channel to HOST:PORT, which may have a scheme: encrypted for https and grpcs, else if `secure`.

    `:authority` is the `Host` among the `headers`, if there is one, else HOST:PORT. Requires grpcio. Raises
    ConfigurationError as `channel_credentials` does.
    """
    import grpc.aio

    target = url.rpartition("://")[2].rstrip("/")
    options = [*options, *(("grpc.default_authority", value) for name, value in headers if name.lower() == HOST)]
    if secure or url.startswith(SECURE_SCHEMES):
        return grpc.aio.secure_channel(target, channel_credentials(tls), options)
    return grpc.aio.insecure_channel(target, options)


def channel_credentials(tls: ssl.SSLContext | None) -> Any:
    """grpc.ChannelCredentials with the authorities of `tls`, or grpcio's own, and the certificate of a `ClientTls`.

    Requires grpcio. Raises ConfigurationError for a certificate or key that gRPC cannot read.
    """
    import grpc

    trusted = tls.get_ca_certs(binary_form=True) if tls is not None else []
    authorities = "".join(map(ssl.DER_cert_to_PEM_cert, trusted)).encode() or None
    if not isinstance(tls, ClientTls) or tls.presented is None:
        return grpc.ssl_channel_credentials(authorities)
    chain_file, key_file = tls.presented
    try:
        chain, key = chain_file.read_bytes(), key_file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {error.filename}: {error.strerror}") from None
    if _ENCRYPTED in key:
        raise ConfigurationError(f"{key_file}: gRPC cannot read an encrypted key; expected one without password")
    return grpc.ssl_channel_credentials(authorities, key, chain)
