"""When the certificates in PEM files end, so that an alert can say so before. Their other fields are not read."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from a2a_tool_capture.regular_files import open_regular

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_EXPLICIT_VERSION, _UTC_TIME = 0xA0, 0x17
_MAX_BYTES = 16 * 1024 * 1024


class CertificateOf(NamedTuple):
    """Whose certificate it is: that of a setting, for one of several agents or (empty) for the proxy."""

    setting: str
    agent: str = ""


class CertificateEnds:
    """The ends of the certificates of settings, read when they are asked for. A chain ends when its first one does.

    A file that cannot be used keeps the end that it had: so does the certificate in use.
    """

    def __init__(self, files: Callable[[], Mapping[CertificateOf, str | None]]) -> None:
        """`files`: the paths at that time; None for one that is not given. It may be called in another thread."""
        self._files = files
        self._ends: Mapping[CertificateOf, float] = {}

    @property
    def ends(self) -> Mapping[CertificateOf, float]:
        """In seconds since the epoch."""
        before, ends = self._ends, dict[CertificateOf, float]()
        for certificate, path in self._files().items():
            if path is None:
                continue
            try:
                with open_regular(path) as file:
                    ends[certificate] = first_end(file.read(_MAX_BYTES))
            except (OSError, ValueError):
                if certificate in before:
                    ends[certificate] = before[certificate]
        self._ends = ends
        return ends


def first_end(pem: bytes) -> float:
    """The end of the certificate in a PEM file that ends first, in seconds since the epoch.

    Raises ValueError where no certificate is in it, or one that cannot be read.
    """
    try:
        return min(_end(b64decode(content)) for content in _CERTIFICATE.findall(pem))
    except (binascii.Error, IndexError) as error:
        raise ValueError(f"no certificate: {error}") from None


def _end(certificate: bytes) -> float:
    """`notAfter` of a certificate in DER: RFC 5280, section 4.1."""
    _, signed, _ = _element(_element(certificate)[1])
    tag, _, rest = _element(signed)
    fields = rest if tag == _EXPLICIT_VERSION else signed
    for _ in ("serialNumber", "signature", "issuer"):
        fields = _element(fields)[2]
    _, validity, _ = _element(fields)
    tag, text, _ = _element(_element(validity)[2])
    time = text.decode("ascii")
    if tag == _UTC_TIME:  # two digits of the year: section 4.1.2.5.1
        time = f"{'19' if time[:2] >= '50' else '20'}{time}"
    return datetime.strptime(time, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _element(content: bytes) -> tuple[int, bytes, bytes]:
    """The first element of a DER content: its tag, its content, and what follows it (X.690, section 8.1)."""
    length, start = content[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(content[2:start], "big")
    return content[0], content[start : start + length], content[start + length :]
