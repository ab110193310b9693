"""Reasons to refuse an OTLP request."""

from __future__ import annotations

from typing import ClassVar


class BodyError(Exception):
    """A refused request; the message describes the problem and what is accepted."""

    status: ClassVar[int]
    """The HTTP status of the response."""


class MalformedError(BodyError):
    """Not OTLP, truncated, or not of its content type."""

    status = 400


class PayloadTooLargeError(BodyError):
    """The body exceeds a limit of the receiver: as sent, decompressed, or decoded."""

    status = 413


class UnsupportedError(BodyError):
    """An unsupported content type or content encoding."""

    status = 415


class BusyError(BodyError):
    """Too many requests wait to be processed; the only one that senders retry."""

    status = 503
