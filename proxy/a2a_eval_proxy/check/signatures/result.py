"""The result of verifying one signature. Pure, and without the libraries of the extra `signing`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SignatureStatus(StrEnum):
    VERIFIED = "verified"
    NOT_VERIFIABLE = "not verifiable"
    """There is no key to verify it with."""
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class SignatureResult:
    """`where` is the path of the signature in the card; `reason` says why it is not verified."""

    where: str
    status: SignatureStatus
    reason: str = ""
    uncovered: tuple[str, ...] = ()
    """Top-level fields of the card that a verified signature does not cover."""


def invalid(where: str, reason: str) -> SignatureResult:
    return SignatureResult(where, SignatureStatus.INVALID, reason)


def not_verifiable(where: str, reason: str) -> SignatureResult:
    return SignatureResult(where, SignatureStatus.NOT_VERIFIABLE, reason)
