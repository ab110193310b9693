"""Certificates for tests with real TLS: an authority, and files as people and Kubernetes lay them out."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)


@dataclass(frozen=True)
class Pair:
    """The files of a certificate and its key."""

    cert: Path
    key: Path

    @property
    def serial(self) -> int:
        """What distinguishes it from others."""
        return x509.load_pem_x509_certificate(self.cert.read_bytes()).serial_number


class Authority:
    """A certificate authority with its files in `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._ca = trustme.CA()
        self.ca = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(self.ca)

    def issue(self, name: str, host: str = "127.0.0.1", *, password: str | None = None, **validity: Any) -> Pair:
        """A certificate for `host`; `not_before` and `not_after` as in trustme."""
        issued = self._ca.issue_cert(host, **validity)
        pair = Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        pair.cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        key = issued.private_key_pem.bytes()
        if password is not None:
            encryption = BestAvailableEncryption(password.encode())
            key = load_pem_private_key(key, None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        pair.key.write_bytes(key)
        return pair

    def server(self, *, host: str = "127.0.0.1", clients: Authority | None = None, **validity: Any) -> ssl.SSLContext:
        """The TLS of a server; with `clients`, only those with a certificate of that authority are let in."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._ca.issue_cert(host, **validity).configure_cert(context)
        if clients is not None:
            context.load_verify_locations(clients.ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client(self, pair: Pair | None = None) -> ssl.SSLContext:
        """The TLS of a client that trusts this authority, and shows `pair`."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if pair is not None:
            context.load_cert_chain(pair.cert, pair.key)
        return context


class MountedSecret:
    """A folder as Kubernetes mounts a secret: names lead over `..data` to a version, swapped in one rename."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._version = 0

    def __truediv__(self, name: str) -> Path:
        return self._folder / name

    def put(self, **contents: bytes) -> None:
        """The next version; in names, `_` stands for a dot."""
        self._version += 1
        version = self._folder / f"..{self._version}"
        version.mkdir()
        for name, content in contents.items():
            file = name.replace("_", ".")
            (version / file).write_bytes(content)
            if not (self._folder / file).is_symlink():
                (self._folder / file).symlink_to(f"..data/{file}")
        fresh = self._folder / "..data_tmp"
        fresh.symlink_to(version.name)
        fresh.rename(self._folder / "..data")

    def put_pair(self, pair: Pair) -> None:
        """The next version, as cert-manager writes it."""
        self.put(tls_crt=pair.cert.read_bytes(), tls_key=pair.key.read_bytes())
