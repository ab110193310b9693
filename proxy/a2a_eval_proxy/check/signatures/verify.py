"""Reads public keys and signatures of a card, and verifies these over its canonical forms. Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import rfc8785
from a2a.types import AgentCard
from a2a_tool_capture.json_limits import READ, too_deep
from a2a_tool_capture.json_values import not_json
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from google.api import field_behavior_pb2
from google.protobuf.json_format import Error as JsonFormatError
from google.protobuf.json_format import MessageToDict, ParseDict
from jwt import PyJWK
from jwt.algorithms import get_default_algorithms
from jwt.exceptions import PyJWTError

from .result import SignatureResult, SignatureStatus, invalid, not_verifiable

MAX_CARD_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CanonicalForm:
    """`data` is what a signature covers. `uncovered` are top-level fields of the card that `data` lacks."""

    data: bytes
    uncovered: tuple[str, ...] = ()


def decode_strictly(data: bytes) -> Any:
    """Decode JSON that means the same to every reader. Raises ValueError with the reason otherwise.

    Numbers are doubles (RFC 8785, section 3.2.2.3). A repeated key, NaN, a lone surrogate and deep nesting are refused.
    """
    try:
        value = json.loads(data, object_pairs_hook=_unique, parse_int=float, parse_constant=not_json)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error})") from None
    if too_deep(value):
        raise ValueError(f"it is nested deeper than {READ} levels")
    return value


def canonical_forms(card: dict[str, Any]) -> list[CanonicalForm]:
    """Returns the forms that signers use, without duplicates. Raises ValueError for a card without canonical form.

    First that of the specification: fields of A2A 1.0, without those that have their default value unless they are
    required. Then that of the SDKs, which leave out required fields, too, if they are empty. Then the card as it was
    served, with and without its empty fields: it may have fields of other versions.
    """
    served = {name: value for name, value in card.items() if name != "signatures"}
    forms = []
    try:
        known = MessageToDict(ParseDict(served, AgentCard(), ignore_unknown_fields=True))
    except (JsonFormatError, TypeError, AttributeError, ValueError):  # no card of A2A 1.0
        known = None
    if known is not None:
        everything = _without_empty(known) or {}
        names = (name for name, value in served.items() if _without_empty(value) != everything.get(name))
        uncovered = tuple(sorted(name for name in names if _without_empty(served[name]) is not None))
        forms += [CanonicalForm(_canonical(form), uncovered) for form in (_with_required(known, served), everything)]
    forms += [CanonicalForm(_canonical(form)) for form in (served, _without_empty(served) or {})]
    return list(dict.fromkeys(forms))


def _canonical(value: Any) -> bytes:
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise ValueError(f"it has no canonical form ({error})") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has the key {next(name for name in names if names.count(name) > 1)!r} twice")
    return found


def _without_empty(value: Any) -> Any:
    """The value without empty strings, lists, objects and nulls, at any depth; None if nothing is left."""
    if isinstance(value, dict):
        kept = {name: inner for name, item in value.items() if (inner := _without_empty(item)) is not None}
        return kept or None
    if isinstance(value, list):
        return [inner for item in value if (inner := _without_empty(item)) is not None] or None
    return None if value == "" else value


def _with_required(known: dict[str, Any], served: dict[str, Any]) -> dict[str, Any]:
    """The known fields, and those that are required and were served with their default value."""
    required = {
        field.json_name
        for field in AgentCard.DESCRIPTOR.fields
        if field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    }
    return known | {name: value for name, value in served.items() if name in required - known.keys()}


MAX_KEYS = 100
_LEAST_RSA_BITS = 2048
"""RFC 7518, section 3.3."""

_CURVES = {"ES256": "secp256r1", "ES384": "secp384r1", "ES512": "secp521r1"}
_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
ALGORITHMS = frozenset({*_CURVES, *_RSA, "EdDSA"})
"""Algorithms with a public key. `none` and the HMAC family prove nothing about a card."""

_OF_KEY_TYPE = {"EC": "ES256", "RSA": "RS256", "OKP": "EdDSA"}
"""An algorithm with which PyJWT reads a key of this type."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """`key` is a public key of `cryptography`; `jwk` the rest that a JWK says about it, {} for PEM."""

    key: Any
    jwk: dict[str, Any]

    @property
    def kid(self) -> str | None:
        return self.jwk.get("kid")

    def mismatch(self, algorithm: str) -> str:
        """Why the key must not verify signatures of `algorithm`, which is one of ALGORITHMS; "" if it may."""
        if self.jwk.get("alg", algorithm) != algorithm:
            return f"the key is for {self.jwk['alg']!r} only"
        if self.jwk.get("use", "sig") != "sig" or "verify" not in self.jwk.get("key_ops", ["verify"]):
            return "the key is not for signatures"
        if algorithm in _RSA:
            fits = isinstance(self.key, rsa.RSAPublicKey)
            if fits and self.key.key_size < _LEAST_RSA_BITS:
                return f"the RSA key has {self.key.key_size} bits, fewer than {_LEAST_RSA_BITS}"
        elif algorithm in _CURVES:
            fits = isinstance(self.key, ec.EllipticCurvePublicKey) and self.key.curve.name == _CURVES[algorithm]
        else:
            fits = isinstance(self.key, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey)
        return "" if fits else "the key is of another type"


def read_keys(data: bytes) -> list[PublicKey]:
    """Returns the public keys. Raises ValueError for content without keys, or with a key that must not be used."""
    if data.lstrip().startswith(b"-----BEGIN"):
        return [PublicKey(_from_pem(data), {})]
    content = decode_strictly(data)
    jwks = content.get("keys", [content]) if isinstance(content, dict) else None
    if not isinstance(jwks, list) or not jwks or not all(isinstance(jwk, dict) for jwk in jwks):
        raise ValueError("it is neither a JWK, a JWK Set nor PEM")
    if len(jwks) > MAX_KEYS:
        raise ValueError(f"it has more than {MAX_KEYS} keys")
    return [_from_jwk(jwk) for jwk in jwks]


def _from_jwk(jwk: dict[str, Any]) -> PublicKey:
    key_type = jwk.get("kty")
    if key_type == "oct":
        raise ValueError("it has a symmetric key (`kty: oct`); expected a public key")
    if "d" in jwk:
        raise ValueError("it has a private key; give the public key")
    if not isinstance(key_type, str) or key_type not in _OF_KEY_TYPE:
        raise ValueError(f"its `kty` is {key_type!r}; expected EC, RSA or OKP")
    if not isinstance(jwk.get("kid", ""), str) or not isinstance(jwk.get("key_ops", []), list):
        raise ValueError("its `kid` is not a string, or its `key_ops` not a list")
    try:
        return PublicKey(PyJWK.from_dict(jwk, _OF_KEY_TYPE[key_type]).key, jwk)
    except (PyJWTError, ValueError, TypeError, KeyError, UnsupportedAlgorithm) as error:
        raise ValueError(f"it has a key that cannot be read ({error})") from None


def _from_pem(data: bytes) -> Any:
    if b"PRIVATE KEY" in data:
        raise ValueError("it has a private key; give the public key")
    try:
        if b"BEGIN CERTIFICATE" in data:
            return x509.load_pem_x509_certificate(data).public_key()
        return serialization.load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(f"it is not a public key or certificate in PEM ({error})") from None


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
