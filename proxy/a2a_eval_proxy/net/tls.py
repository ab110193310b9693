"""TLS from files: our certificate, and the authorities we trust; each mistake in them gives one sentence."""

from __future__ import annotations

import ssl
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from a2a_tool_capture.client_tls import ClientTls

from ..errors import ConfigError
from .file_watcher import FileWatch

HTTP_1 = ("http/1.1",)
HTTP_2 = ("h2",)
HTTP = HTTP_2 + HTTP_1
"""What is spoken (ALPN), the preferred one first."""

_MAX_PEM_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files and the settings that name them: `setting` is how those of `cert`, `key` and `key_password` begin.

    `cert` holds our certificate and the chain below its root, `ca` the certificates of the authorities whose
    signature is accepted (in place of the system's), from the setting `ca_setting`.
    """

    setting: str
    ca_setting: str
    cert: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    ca: str | None = None
    alpn: tuple[str, ...] = HTTP_1

    @classmethod
    def of(
        cls,
        options: object,
        setting: str,
        *,
        prefix: str = "",
        ca: str | None = None,
        ca_setting: str = "",
        alpn: tuple[str, ...] = HTTP_1,
    ) -> Self:
        """The files in the fields `cert`, `key`, `key_password` and `ca` of `options`, whose names begin with `prefix`
        there; a `ca` is in place of that one."""
        given = {name: getattr(options, prefix + name, None) for name in ("cert", "key", "key_password", "ca")}
        given["ca"] = ca or given["ca"]
        return cls(setting=setting, ca_setting=ca_setting or f"{setting}ca", alpn=alpn, **given)

    @property
    def paths(self) -> tuple[str, ...]:
        """Those that are given."""
        return tuple(path for path in (self.cert, self.key, self.ca) if path is not None)

    def server_context(self) -> ssl.SSLContext:
        """For a server: TLS 1.2 or later; with `ca`, clients must have a certificate from it, the authority.

        Raises ConfigError.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(self.alpn)
        self._show_certificate(context)
        if self.ca is not None:
            self._load_ca(context)
            context.verify_mode = ssl.CERT_REQUIRED
            # A resumed session would not be checked against an authority that was replaced.
            context.num_tickets = 0
            context.options |= ssl.OP_NO_TICKET
        return context

    def client_context(self) -> ssl.SSLContext:
        """For a client that checks names and trusts `ca`, or else the system. Raises ConfigError."""
        if self.ca is None and self.cert is None:
            context = ssl.create_default_context()
        else:
            context = ClientTls(ssl.PROTOCOL_TLS_CLIENT)
        if self.ca is not None:
            self._load_ca(context)
        elif self.cert is not None:
            context.load_default_certs()
        context.set_alpn_protocols(self.alpn)
        if self.cert is not None:
            self._show_certificate(context)
        return context

    def _show_certificate(self, context: ssl.SSLContext) -> None:
        cert_setting, key_setting = f"{self.setting}cert", f"{self.setting}key"
        cert, key = self.cert or "", self.key or ""
        _must_hold(cert, b"CERTIFICATE-----", cert_setting, "PEM certificate")
        _must_hold(key, b"PRIVATE KEY-----", key_setting, "PEM private key")
        try:
            context.load_cert_chain(cert, key, self._password)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise ConfigError(f"{key_setting}: {key} is not the key of the certificate in {cert}") from None
            hint = f", or {key_setting}_password is not its password" if self.key_password else ""
            raise ConfigError(
                f"{cert_setting}, {key_setting}: {cert} and {key} hold no certificate and key that can be used"
                f"{hint} ({_reason(error)})"
            ) from None
        except OSError as error:  # it existed a moment ago
            raise ConfigError(
                f"{cert_setting}, {key_setting}: cannot read {cert} and {key}: {error.strerror}"
            ) from None

    def _password(self) -> str:
        if self.key_password is None:
            raise ConfigError(f"{self.setting}key: {self.key} is encrypted; set {self.setting}key_password")
        return self.key_password

    def _load_ca(self, context: ssl.SSLContext) -> None:
        path = self.ca or ""
        _must_hold(path, b"CERTIFICATE-----", self.ca_setting, "PEM certificate")
        try:
            context.load_verify_locations(path)
        except OSError as error:
            why = _reason(error) if isinstance(error, ssl.SSLError) else error.strerror
            raise ConfigError(f"{self.ca_setting}: {path} holds certificates that cannot be used ({why})") from None


def server_tls(files: TlsFiles, watch: FileWatch, name: str) -> ssl.SSLContext | None:
    """What to open a port with; None for plain text, where there is no certificate. Raises ConfigError.

    New connections use what `watch` finds in the files; `name` is that of `FileWatch.add`.
    """
    if files.cert is None:
        return None
    context = _InForce(ssl.PROTOCOL_TLS_SERVER)

    def load() -> None:
        context.current = files.server_context()

    watch.add(name, files.paths, load)
    return context


class _InForce(ssl.SSLContext):
    """Makes connections of another context, which may be replaced.

    An `sni_callback` would be too late: a session of TLS 1.2 is resumed before it, from the memory of the context that
    made the connection, even for a client that is not accepted any more.
    """

    current: ssl.SSLContext

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Called by event loops for every new connection."""
        return self.current.wrap_bio(incoming, outgoing, server_side, server_hostname, session)


def _must_hold(path: str, marker: bytes, setting: str, what: str) -> None:
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):  # OpenSSL reads it again, when a pipe would be empty
            why: str | None = "it is not a file"
        else:
            with Path(path).open("rb") as file:
                if marker in file.read(_MAX_PEM_BYTES):
                    return
            why = f"there is no {what} in it"
    except OSError as error:
        why = error.strerror
    raise ConfigError(f"{setting}: cannot use {path}: {why}; expected a file with a {what}")


def _reason(error: OSError) -> str:
    """OpenSSL's reason, without its source lines."""
    return str(error.args[-1]).partition(" (_ssl.c")[0]
