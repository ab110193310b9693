"""Signed cards as agents serve them: where keys are fetched from, and what a check reports."""

from __future__ import annotations

import json
from typing import Any

import jwt
import pytest
from a2a.types import AgentCapabilities, AgentCard, AgentExtension, AgentInterface
from a2a.utils.signing import create_agent_card_signer
from a2a_eval_proxy.cli import main
from a2a_tool_capture import URI
from agents.serving import ServerThread
from cryptography.hazmat.primitives.asymmetric import ec
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import Route

KEY = ec.generate_private_key(ec.SECP256R1())
JWK = {**jwt.get_algorithm_by_name("ES256").to_jwk(KEY.public_key(), as_dict=True), "kid": "k1"}


class SignedAgent:
    """Serves a card signed by a2a-sdk, and its key set; `jku` is what the signature names, relative to the agent."""

    def __init__(self) -> None:
        self.jku: str | None = "/jwks"
        self.unsigned: dict[str, Any] = {}
        self.asked_for_key: list[dict[str, str]] = []

    def app(self, url: str) -> Any:
        self.url = url
        routes = [
            Route("/.well-known/agent-card.json", self._card),
            Route("/jwks", self._jwks),
            Route("/moved", lambda request: RedirectResponse("/jwks")),
        ]
        return Starlette(routes=routes)

    def _card(self, request: Request) -> JSONResponse:
        card = AgentCard(
            name="Signed",
            description="d",
            version="1",
            supported_interfaces=[AgentInterface(url=self.url, protocol_binding="X", protocol_version="1.0")],
            capabilities=AgentCapabilities(extensions=[AgentExtension(uri=URI, description="d")]),
            default_input_modes=["text"],
            default_output_modes=["text"],
        )
        header: Any = {"alg": "ES256", "kid": "k1", "typ": "JOSE"}
        if self.jku is not None:
            header["jku"] = self.jku if "://" in self.jku else self.url + self.jku
        return JSONResponse(MessageToDict(create_agent_card_signer(KEY, header)(card)) | self.unsigned)

    def _jwks(self, request: Request) -> JSONResponse:
        self.asked_for_key.append(dict(request.headers))
        return JSONResponse({"keys": [JWK]})


@pytest.fixture(scope="module")
def agent():
    agent = SignedAgent()
    with ServerThread(agent.app):
        yield agent


@pytest.fixture
def checked(agent, capsys, monkeypatch):
    def run(jku: str | None, *arguments: str, rule: str = "card-signature") -> tuple[Any, dict[str, Any]]:
        agent.jku = jku
        credentials = ("--header", "Authorization: Bearer sesame-sesame")
        command = ["a2a-eval-proxy", "check", agent.url, "--format", "json", *credentials, *arguments]
        monkeypatch.setattr("sys.argv", command)
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr().out
        results = json.loads(output)["results"] if output else []
        return ended.value.code, next((result for result in results if result["rule"] == rule), {})

    return run


def test_the_key_may_come_from_the_origin_of_the_agent_without_credentials(agent, checked) -> None:
    _, result = checked("/jwks")
    assert (result["status"], result["problems"]) == ("passed", [])
    assert "authorization" not in agent.asked_for_key[-1]


def test_redirects_of_the_key_are_not_followed(agent, checked) -> None:
    asked = len(agent.asked_for_key)
    _, result = checked("/moved")
    assert result["status"] == "unseen"
    assert "it answered HTTP 307" in result["reason"]
    assert len(agent.asked_for_key) == asked


def test_without_a_key_the_report_says_how_to_give_one(checked) -> None:
    _, result = checked(None)
    assert result["status"] == "unseen"
    assert result["reason"] == "not verifiable: there is no key: give the agent's public key with --card-key FILE"


def test_a_key_elsewhere_is_fetched_only_if_the_user_names_it(agent, checked) -> None:
    with ServerThread(SignedAgent().app) as elsewhere:
        _, untrusted = checked(f"{elsewhere.url}/jwks")
        _, trusted = checked(f"{elsewhere.url}/jwks", "--card-key", f"{elsewhere.url}/jwks")
    assert (untrusted["status"], trusted["status"]) == ("unseen", "passed")


def test_another_key_fails_the_check(checked, tmp_path) -> None:
    other = jwt.get_algorithm_by_name("ES256").to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key())
    (tmp_path / "key.json").write_text(other)
    code, result = checked("/jwks", "--card-key", str(tmp_path / "key.json"))
    assert (code, result["status"]) == (1, "failed")
    assert "another key signed it" in result["problems"][0]["message"]


def test_fields_that_the_signature_does_not_cover_are_a_warning(agent, checked, monkeypatch) -> None:
    monkeypatch.setattr(agent, "unsigned", {"url": agent.url})
    _, result = checked("/jwks", rule="card-signature-covers")
    assert result["status"] == "warning"
    assert [problem["message"] for problem in result["problems"]] == ["the signature does not cover url"]


def test_a_key_that_cannot_be_fetched_is_bad_usage(agent, checked, capsys) -> None:
    code, _ = checked("/jwks", "--card-key", f"{agent.url}/nothing")
    assert code == 2
