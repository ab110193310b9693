"""Reasons to refuse an OTLP request, each with its HTTP status.

BodyError
├── MalformedError        400  does not match its content type
├── UnsupportedError      415  unknown content type or encoding
├── PayloadTooLargeError  413  exceeds a limit of the receiver
└── BusyError             503  temporary; the only one that senders retry
"""

from __future__ import annotations

from typing import ClassVar


class BodyError(Exception):
    """A refused request; the message describes the problem and what is accepted."""

    status: ClassVar[int]
    """The HTTP status of the response."""


class BusyError(BodyError):
    """Too many requests wait to be processed; the sender may retry."""

    status = 503


class MalformedError(BodyError):
    """Not OTLP, or truncated."""

    status = 400


class UnsupportedError(BodyError):
    """An unsupported content type or content encoding."""

    status = 415


class PayloadTooLargeError(BodyError):
    """The body exceeds a limit: as sent, decompressed, or decoded."""

    status = 413
