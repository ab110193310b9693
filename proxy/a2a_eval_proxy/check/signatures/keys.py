"""Public keys for signatures: JWK, JWK Set (RFC 7517) or PEM. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from .canonical import decode_strictly

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
        """The `kid` of a JWK."""
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
