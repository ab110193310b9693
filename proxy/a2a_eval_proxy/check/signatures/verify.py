"""Reads and verifies signatures of a card. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jwt.algorithms import get_default_algorithms

from .canonical import CanonicalForm, decode_strictly
from .keys import ALGORITHMS, PublicKey
from .result import SignatureResult, SignatureStatus, invalid, not_verifiable

MAX_SIGNATURES = 20
_BASE64URL = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class CardSignature:
    """A signature with a header that may be verified. `where` is its path in the card."""

    where: str
    protected: str
    signature: bytes
    algorithm: str
    kid: str | None
    jku: str | None


def read_signatures(card: dict[str, Any]) -> list[CardSignature | SignatureResult]:
    """Returns each signature of the card, or why it is invalid."""
    entries = card.get("signatures")
    if not isinstance(entries, list):
        return [] if entries is None else [invalid("signatures", "it is not a list")]
    if len(entries) > MAX_SIGNATURES:
        return [invalid("signatures", f"there are more than {MAX_SIGNATURES}")]
    found: list[CardSignature | SignatureResult] = []
    for number, entry in enumerate(entries):
        where = f"signatures[{number}]"
        try:
            found.append(_read(where, entry))
        except ValueError as error:
            found.append(invalid(where, str(error)))
    return found


def verify(signature: CardSignature, forms: Sequence[CanonicalForm], keys: Sequence[PublicKey]) -> SignatureResult:
    """Returns whether a key in `keys` made `signature` over one of the canonical `forms` of the card."""
    where, kid = signature.where, signature.kid
    named = [key for key in keys if kid is None or key.kid is None or key.kid == kid]
    if not named:
        return not_verifiable(where, f"no key has its `kid` {kid!r}")
    problems = {mismatch for key in named if (mismatch := key.mismatch(signature.algorithm))}
    fitting = [key for key in named if not key.mismatch(signature.algorithm)]
    if not fitting:
        return invalid(where, f"its algorithm is {signature.algorithm}, but {'; '.join(sorted(problems))}")
    algorithm = get_default_algorithms()[signature.algorithm]
    for form in forms:
        payload = base64.urlsafe_b64encode(form.data).rstrip(b"=")
        signed = signature.protected.encode() + b"." + payload
        if any(algorithm.verify(signed, key.key, signature.signature) for key in fitting):
            return SignatureResult(where, SignatureStatus.VERIFIED, uncovered=form.uncovered)
    return invalid(where, "it does not match: the card was changed after it was signed, or another key signed it")


def _read(where: str, entry: Any) -> CardSignature:
    if not isinstance(entry, dict):
        raise ValueError("it is not an object")  # of the card, not of the program
    protected = entry.get("protected")
    try:
        header = decode_strictly(_decoded(protected, "protected"))
    except ValueError as error:
        raise ValueError(f"its `protected` header cannot be read: {error}") from None
    if not isinstance(header, dict):
        raise ValueError("its `protected` header is not an object")
    unprotected = entry.get("header") or {}
    if not isinstance(unprotected, dict) or header.keys() & unprotected.keys():
        raise ValueError("its `header` is not an object, or repeats a parameter of `protected` (RFC 7515, section 4)")
    algorithm, kid, jku = header.get("alg"), header.get("kid"), header.get("jku")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        accepted = ", ".join(sorted(ALGORITHMS))
        raise ValueError(f"its `protected` header has the algorithm {algorithm!r}; accepted are {accepted}")
    if "crit" in header or "crit" in unprotected or "b64" in header:
        raise ValueError(f"it requires extensions of JWS that A2A does not define (`crit`: {header.get('crit')!r})")
    for name, value in (("kid", kid), ("jku", jku)):
        if value is not None and not isinstance(value, str):
            raise ValueError(f"its `{name}` is not a string")
    return CardSignature(where, str(protected), _decoded(entry.get("signature"), "signature"), algorithm, kid, jku)


def _decoded(value: Any, name: str) -> bytes:
    if not isinstance(value, str) or not _BASE64URL.fullmatch(value) or len(value) % 4 == 1:
        raise ValueError(f"`{name}` is not base64url without padding")
    return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
