"""RFC 9421: which signatures of a request, and of its response, their receivers can verify behind the proxy."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

import pytest
from agents.replay_agent import Answer, ReplayAgent
from e2e.raw_http import exchange
from e2e.transparency.test_odd_answers import SEND
from httpx import URL

KEY = b"shared by the client and the agent"
BODY = json.dumps(SEND).encode()


def digest(body: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"


def signature(components: dict[str, str]) -> tuple[str, str]:
    """`Signature-Input` and `Signature` of these names and values, in their order."""
    names = " ".join(f'"{name}"' for name in components)
    parameters = f'({names});created=1618884473;keyid="test";alg="hmac-sha256"'
    lines = [f'"{name}": {value}' for name, value in components.items()]
    base = "\n".join([*lines, f'"@signature-params": {parameters}'])
    signed = base64.b64encode(hmac.digest(KEY, base.encode(), "sha256")).decode()
    return f"sig={parameters}", f"sig=:{signed}:"


@pytest.mark.parametrize(
    ("covered", "stays_valid"),
    [
        (("@method", "@path", "@query", "content-digest", "content-type", "authorization", "a2a-version"), True),
        (("@request-target", "content-length"), True),
        (("@authority",), False),
        (("@target-uri",), False),
    ],
)
def test_of_a_request(covered: tuple[str, ...], stays_valid: bool, replay: ReplayAgent, replay_proxy_url: str) -> None:
    replay.prepare(Answer([b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"]))
    fields = {
        "content-digest": digest(BODY),
        "content-type": "application/json",
        "authorization": "Bearer token",
        "a2a-version": "1.0",
        "content-length": str(len(BODY)),
    }

    def values(line: str, host: str, fields: dict[str, str]) -> dict[str, str]:
        """As the one who sends, or receives, this request finds them."""
        method, target, _ = line.split(" ")
        path, _, query = target.partition("?")
        derived = {"@method": method, "@path": path, "@query": f"?{query}", "@request-target": target}
        everything = derived | {"@authority": host, "@target-uri": f"http://{host}{target}"} | fields
        return {name: everything[name] for name in covered}

    line, url = "POST /rpc?a=%2F&b HTTP/1.1", URL(replay_proxy_url)
    sent = signature(values(line, f"{url.host}:{url.port}", fields))
    signed = list(zip(("Signature-Input", "Signature"), sent, strict=True))
    del fields["content-length"]  # which `exchange` adds
    exchange(replay_proxy_url, line, [*fields.items(), *signed], BODY)
    (request,) = replay.received
    received = dict(request.headers)
    assert (received["signature-input"], received["signature"]) == sent
    assert received["content-digest"] == digest(request.body)
    verified = signature(values(request.request_line, received["host"], received))
    assert (verified == sent) is stays_valid


def test_of_a_response(replay: ReplayAgent, replay_proxy_url: str) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"messageId": "m"}}).encode()
    covered = {"@status": "200", "content-digest": digest(body), "content-type": "application/json"}
    parameters, signed = signature(covered)
    fields = {**covered, "signature-input": parameters, "signature": signed, "content-length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if name[0] != "@")
    replay.prepare(Answer([f"HTTP/1.1 200 OK\r\n{head}\r\n".encode() + body]))
    response = exchange(replay_proxy_url, "POST /rpc HTTP/1.1", [("A2A-Version", "1.0")], BODY)
    found = {"@status": str(response.status)} | {
        name: str(response.header(name)) for name in ("content-digest", "content-type")
    }
    assert digest(response.body) == found["content-digest"]
    assert signature(found) == (response.header("signature-input"), response.header("signature"))
