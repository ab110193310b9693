"""Signatures of agent cards: made by a2a-sdk and by hand (RFC 7515), verified and refused."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
import rfc8785
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from a2a.utils.signing import create_agent_card_signer, create_signature_verifier
from a2a_eval_proxy.check.signatures.card import verify_card
from a2a_eval_proxy.check.signatures.result import SignatureStatus
from a2a_eval_proxy.errors import ConfigError
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st

FIELDS = ("signatures", "protected", "signature", "header", "alg", "kid", "name", "capabilities", "skills")
URL = "http://127.0.0.1:1/.well-known/agent-card.json"
PRIVATE = {
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "RS256": rsa.generate_private_key(65537, 2048),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
VERIFIED, NOT_VERIFIABLE, INVALID = SignatureStatus.VERIFIED, SignatureStatus.NOT_VERIFIABLE, SignatureStatus.INVALID


def pem(key: Any) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def jwk(algorithm: str, **more: Any) -> dict[str, Any]:
    key = PRIVATE[algorithm].public_key()
    return {**jwt.get_algorithm_by_name(algorithm).to_jwk(key, as_dict=True), **more}


def sdk_card() -> AgentCard:
    return AgentCard(
        name="Signed",
        description="Größe – 名前",
        version="1",
        supported_interfaces=[AgentInterface(url="http://a/", protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=False),
        default_input_modes=["text"],
        default_output_modes=["text"],
        skills=[AgentSkill(id="s", name="s", description="", tags=["x"])],
    )


def signed_by_sdk(algorithm: str = "ES256", **header: Any) -> dict[str, Any]:
    header = {"alg": algorithm, "kid": "k1", "typ": "JOSE", **header}
    return agent_card_to_dict(create_agent_card_signer(PRIVATE[algorithm], header)(sdk_card()))


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed_by_hand(
    card: dict[str, Any], header: dict[str, Any] | bytes, key: Any = None, /, **entry: Any
) -> dict[str, Any]:
    """The card with a signature over its JSON in RFC 8785 form, by PyJWT's primitives alone."""
    protected = b64(header if isinstance(header, bytes) else json.dumps(header).encode())
    algorithm = "ES256" if isinstance(header, bytes) else header.get("alg", "ES256")
    signing_input = f"{protected}.{b64(rfc8785.dumps(card))}".encode()
    signer = jwt.get_algorithm_by_name(algorithm) if algorithm in jwt.algorithms.get_default_algorithms() else None
    key = PRIVATE.get(algorithm) if key is None else key
    signature = signer.sign(signing_input, signer.prepare_key(key)) if signer and key is not None else b""
    return {**card, "signatures": [{"protected": protected, "signature": b64(signature), **entry}]}


@pytest.fixture
def key_file(tmp_path) -> Callable[[Any], str]:
    def write(content: Any) -> str:
        path = tmp_path / "key"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return str(path)

    return write


async def outcome(card: Any, key: str | None = None) -> tuple[SignatureStatus, str]:
    body = card if isinstance(card, bytes) else json.dumps(card).encode()
    (result,) = await verify_card(body, URL, key)
    return result.status, result.reason


@pytest.mark.parametrize("algorithm", PRIVATE)
async def test_a_card_signed_by_the_sdk_is_verified_with_any_kind_of_key(algorithm, key_file) -> None:
    card = signed_by_sdk(algorithm)
    for key in (pem(PRIVATE[algorithm]), jwk(algorithm), {"keys": [jwk("RS256", kid="k0"), jwk(algorithm, kid="k1")]}):
        assert await outcome(card, key_file(key)) == (VERIFIED, "")


async def test_a_change_to_a_signed_card_is_seen(key_file) -> None:
    card = signed_by_sdk()
    card["supportedInterfaces"][0]["url"] = "http://elsewhere/"

    status, reason = await outcome(card, key_file(jwk("ES256")))
    assert status is INVALID
    assert "changed after it was signed" in reason


async def test_what_is_signed_by_hand_is_verified_by_the_sdk_and_by_the_check(key_file) -> None:
    """Two implementations agree on the canonical form: ours is RFC 8785 by rfc8785, the SDK has its own."""
    card = {name: value for name, value in signed_by_sdk().items() if name != "signatures"}
    card["skills"][0].pop("description", None)  # empty: the SDK leaves it out of its canonical form
    signed = signed_by_hand(card, {"alg": "ES256", "kid": "k1"})

    assert await outcome(signed, key_file(jwk("ES256"))) == (VERIFIED, "")
    parsed = ParseDict(signed, AgentCard())
    create_signature_verifier(lambda kid, jku: PRIVATE["ES256"].public_key(), ["ES256"])(parsed)


async def test_required_fields_are_signed_though_empty(key_file) -> None:
    """A2A 1.0, section 8.4.1: a required field is always present."""
    card = {"name": "Signed", "description": "", "version": "1", "capabilities": {}, "skills": [], "iconUrl": "x"}

    assert await outcome(signed_by_hand(card, {"alg": "ES256"}), key_file(jwk("ES256"))) == (VERIFIED, "")


async def test_fields_that_no_signature_covers_are_named(key_file) -> None:
    card = signed_by_sdk() | {"url": "http://a/", "protocolVersion": "0.3.0"}

    (result,) = await verify_card(json.dumps(card).encode(), URL, key_file(jwk("ES256")))
    assert (result.status, result.uncovered) == (VERIFIED, ("protocolVersion", "url"))


PLAIN = {"name": "Signed", "version": "1", "description": "d"}


@pytest.mark.parametrize(
    ("card", "reason"),
    [
        (signed_by_hand(PLAIN, {"alg": "none"}), "algorithm 'none'"),
        (signed_by_hand(PLAIN, {"alg": "HS256"}, b"x" * 32), "algorithm 'HS256'"),
        (signed_by_hand(PLAIN, {}), "algorithm None"),
        (signed_by_hand(PLAIN, {"alg": "ES256", "crit": ["exp"], "exp": 1}), "`crit`: ['exp']"),
        (signed_by_hand(PLAIN, {"alg": "ES256", "b64": False}), "A2A does not define"),
        (signed_by_hand(PLAIN, b'{"alg": "ES256", "alg": "none"}'), "the key 'alg' twice"),
        (signed_by_hand(PLAIN, b"[]"), "not an object"),
        (signed_by_hand(PLAIN, b"\xff"), "cannot be read: it is not UTF-8"),
        (signed_by_hand(PLAIN, {"alg": "ES256"}, header={"alg": "none"}), "repeats a parameter"),
        (signed_by_hand(PLAIN, {"alg": "ES256"}, signature="a=b"), "`signature` is not base64url"),
        (signed_by_hand(PLAIN, {"alg": "ES256"}, signature="AAAA"), "does not match"),
        (signed_by_hand(PLAIN, {"alg": "RS256"}), "algorithm is RS256, but the key is of another type"),
        (signed_by_hand(PLAIN, {"alg": "ES384"}), "algorithm is ES384, but the key is of another type"),
        (PLAIN | {"signatures": {}}, "not a list"),
        (PLAIN | {"signatures": [1] * 21}, "more than 20"),
        (PLAIN | {"signatures": [1]}, "not an object"),
        (b'{"name": "a", "name": "b", "signatures": []}', "the key 'name' twice"),
        (b'{"signatures": [], "a": ' + b"[" * 200 + b"]" * 200 + b"}", "deeper than 100 levels"),
        (b'{"signatures": [], "a": NaN}', "NaN"),
        (b'{"signatures": [], "a": "' + b"x" * 1024 * 1024 + b'"}', "more than 1048576 bytes"),
        (signed_by_hand(PLAIN, {"alg": "ES256"}) | {"a": 10**400}, "no canonical form"),
        (PLAIN, "the card has none, but --card-key is given"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
async def test_what_proves_nothing_is_refused_with_the_reason(card, reason, key_file) -> None:
    status, found = await outcome(card, key_file(jwk("ES256")))
    assert status is INVALID
    assert reason in found


async def test_a_public_key_is_no_secret_of_hs256(key_file) -> None:
    """The classic confusion: the public key's PEM as HMAC secret."""

    protected = b64(b'{"alg":"HS256"}')
    mac = hmac.new(pem(PRIVATE["RS256"]), f"{protected}.{b64(rfc8785.dumps(PLAIN))}".encode(), hashlib.sha256)
    card = PLAIN | {"signatures": [{"protected": protected, "signature": b64(mac.digest())}]}

    assert (await outcome(card, key_file(pem(PRIVATE["RS256"]))))[0] is INVALID


async def test_a_key_with_another_kid_verifies_nothing(key_file) -> None:
    status, reason = await outcome(signed_by_sdk(), key_file(jwk("ES256", kid="k2")))
    assert status is INVALID  # --card-key is given: it must verify
    assert reason == "no key has its `kid` 'k1'"


@pytest.mark.parametrize("wrong", [{"alg": "ES384"}, {"use": "enc"}, {"key_ops": ["sign"]}])
async def test_a_key_for_something_else_verifies_nothing(wrong, key_file) -> None:
    assert (await outcome(signed_by_sdk(), key_file(jwk("ES256", **wrong))))[0] is INVALID


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"kty": "oct", "k": "AAAA"}, "symmetric key"),
        (jwk("ES256", d="AAAA"), "private key"),
        ({"kty": "EC", "crv": "P-256"}, "cannot be read"),
        ({"kty": "X"}, "expected EC, RSA or OKP"),
        ({"keys": []}, "neither a JWK, a JWK Set nor PEM"),
        (b"hello", "not JSON"),
        (b"-----BEGIN PRIVATE KEY-----", "private key"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "not a public key or certificate in PEM"),
        (b" " * 300_000, "more than 262144 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_key_that_must_not_be_used_is_one_sentence(content, reason, key_file) -> None:
    with pytest.raises(ConfigError, match=f"--card-key .*{reason}"):
        await outcome(signed_by_sdk(), key_file(content))


async def test_a_key_file_that_is_missing_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match="--card-key /nowhere: cannot be read: No such file"):
        await outcome(signed_by_sdk(), "/nowhere")


async def test_a_small_rsa_key_is_refused(key_file) -> None:
    small = rsa.generate_private_key(65537, 1024)
    status, reason = await outcome(signed_by_hand(PLAIN, {"alg": "RS256"}, small), key_file(pem(small)))
    assert status is INVALID
    assert "1024 bits" in reason


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({}, "give the agent's public key with --card-key FILE"),
        ({"jku": "https://keys.example/jwks"}, "not fetched; to trust it, give --card-key https://keys.example/jwks"),
        ({"jku": "http://169.254.169.254/latest"}, "not on the agent's origin"),
        ({"jku": "http://127.0.0.1:1@evil/jwks"}, "not on the agent's origin"),
        ({"jku": "file:///etc/passwd"}, "not on the agent's origin"),
    ],
)
async def test_without_a_key_nothing_is_fetched_from_elsewhere(header, reason) -> None:
    status, found = await outcome(signed_by_sdk(**header))
    assert status is NOT_VERIFIABLE
    assert reason in found


async def test_a_card_without_signature_has_no_result() -> None:
    assert await verify_card(json.dumps(PLAIN).encode(), URL) == ()


async def test_a_card_signed_by_another_implementation_is_verified(key_file) -> None:
    """signed_by_jose.json: by jose 6.2.17 and canonicalize 4.0.0 in Node, with numbers and keys of all kinds."""
    sample = json.loads(Path(__file__).with_name("signed_by_jose.json").read_bytes())

    assert await outcome(sample["card"], key_file(sample["jwk"])) == (VERIFIED, "")
    assert (await outcome(sample["card"] | {"version": "2"}, key_file(sample["jwk"])))[0] is INVALID


BYTES = st.binary() | st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), inner),
    max_leaves=12,
).map(lambda value: json.dumps(value).encode())


@given(body=BYTES, protected=BYTES)
def test_no_card_and_no_header_breaks_the_check_or_is_verified(body: bytes, protected: bytes) -> None:
    entry = json.dumps({"signatures": [{"protected": b64(protected), "signature": "AAAA"}, {}]}).encode()
    for card in (body, entry[:-1] + b', "capabilities": ' + body + b"}"):
        for result in asyncio.run(verify_card(card, URL)):
            assert result.status is not VERIFIED
