"""Why an OTLP request is refused: one error per answer it deserves.

BodyError
├── MalformedError     400  not what its content type says
├── UnsupportedError   415  a content type or coding nobody here reads
├── TooLargeError      413  beyond the limits of the receiver
└── BusyError          503  for now; the only one to retry
"""

from __future__ import annotations

from typing import ClassVar


class BodyError(Exception):
    """A body that is not accepted; the message says what was wrong and what would be right."""

    status: ClassVar[int]
    """The HTTP status it is answered with."""


class BusyError(BodyError):
    """Too much has been taken that is not worked off yet; the sender may try again."""

    status = 503


class MalformedError(BodyError):
    """Not OTLP, or not all of it."""

    status = 400


class UnsupportedError(BodyError):
    """A content type or content coding that is not read here."""

    status = 415


class TooLargeError(BodyError):
    """More bytes than allowed: as sent, decompressed, or decoded."""

    status = 413
