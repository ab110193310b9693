"""Agents over gRPC: the rules of the extension apply as over HTTP."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest
from a2a.server.request_handlers import GrpcHandler
from a2a_eval_proxy.features.check import client
from a2a_eval_proxy.features.check.dialogue import probe_agent
from a2a_eval_proxy.features.check.report import CheckReport, place
from a2a_eval_proxy.features.check.rules import CheckVerdict, RuleStatus
from agents.capture_agent import agent_card
from agents.grpc_only_agent import grpc_only_agent
from agents.serving import ServerThread
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from support.checking import check, rules_with
from support.patience import PATIENCE_S

QUICK = {"subscribe-asked", "subscribe-silent"}
"""The task may be over before a subscription begins."""


@pytest.fixture(autouse=True)
def _brief_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing comes after the events that an agent here sends at once."""
    monkeypatch.setattr(client, "CLOSING_GRACE_S", 0.05)


def card_server(*interfaces: dict[str, str]) -> ServerThread:
    """An HTTP port with a card that names these interfaces."""

    def build(url: str) -> Any:
        card = {**MessageToDict(agent_card(url)), "supportedInterfaces": list(interfaces)}
        card["capabilities"]["extendedAgentCard"] = True

        async def answer(request: Request) -> JSONResponse:
            return JSONResponse(card)

        return Starlette(routes=[Route("/.well-known/agent-card.json", answer)])

    return ServerThread(build)


def interface(address: str, version: str = "1.0") -> dict[str, str]:
    return {"url": address, "protocolBinding": "GRPC", "protocolVersion": version}


def interfaces_of(report: CheckReport) -> list[str]:
    return [str(item.interface) for item in report.record.conversations]


@pytest.mark.parametrize("message", ["Got a kettle?", "ask me"])
async def test_a_right_agent_without_http_passes(message: str) -> None:
    async with grpc_only_agent() as address:
        report = await check(f"grpc://{address}", message)

    assert report.verdict is CheckVerdict.CONFORMING
    assert interfaces_of(report) == ["GRPC 1.0"]
    assert not rules_with(report, RuleStatus.FAILED) | rules_with(report, RuleStatus.WARNING)
    assert rules_with(report, RuleStatus.UNSEEN) <= QUICK
    passed = rules_with(report, RuleStatus.PASSED)
    assert {"card-declares", "get-silent", "list-silent", "stream-asked"} <= passed


async def test_the_interfaces_of_a_card_are_checked() -> None:
    """An address may have a scheme, which clients drop."""
    async with grpc_only_agent() as address:
        with card_server(interface(address), interface(f"http://{address}", "0.3")) as card:
            report = await check(card.url, "Got a kettle?")

    assert interfaces_of(report) == ["GRPC 1.0", "GRPC 0.3"]
    assert not rules_with(report, RuleStatus.FAILED)
    assert report.record.not_checked == ()


async def test_a_service_that_the_card_names_and_the_agent_does_not_have() -> None:
    async with grpc_only_agent(versions=("0.3",)) as address:
        with card_server(interface(address)) as card:
            report = await check(card.url, "Got a kettle?")

    assert rules_with(report, RuleStatus.FAILED) == {"answers"}
    (result,) = [result for result in report.results if result.status is RuleStatus.FAILED]
    problem = result.problems[0]
    assert "gRPC status UNIMPLEMENTED" in problem.message
    assert problem.request.url == f"{address}/SendMessage"
    assert json.loads(problem.request.body)["message"]["parts"] == [{"text": "Got a kettle?"}]
    assert place(problem) == "gRPC"


async def test_the_services_of_a_version_are_found_without_a_card() -> None:
    async with grpc_only_agent(versions=("0.3",)) as address:
        report = await check(f"grpc://{address}", "Got a kettle?")
    assert interfaces_of(report) == ["GRPC 0.3"]
    assert not rules_with(report, RuleStatus.FAILED)


class HidesItsCard(GrpcHandler):
    async def GetExtendedAgentCard(self, request: Any, context: Any) -> Any:  # noqa: N802  # the name of the SDK
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "planned")


async def test_an_agent_without_any_card_is_checked_for_its_traffic() -> None:
    async with grpc_only_agent(HidesItsCard, versions=("1.0",)) as address:
        report = await check(f"grpc://{address}", "Got a kettle?")
    assert not [result for result in report.results if result.interface is None]
    assert "send-asked" in rules_with(report, RuleStatus.PASSED)


async def test_headers_are_metadata_and_are_not_in_the_report() -> None:
    received = []

    class Handler(GrpcHandler):
        async def GetTask(self, request: Any, context: Any) -> Any:  # noqa: N802  # the name of the SDK
            received.append(dict(context.invocation_metadata()).get("authorization"))
            return await super().GetTask(request, context)

    async with (
        grpc_only_agent(Handler, versions=("1.0",)) as address,
        client.ProbeClient({"Authorization": "Bearer s3cret"}, PATIENCE_S) as probe,
    ):
        record = await probe_agent(probe, f"grpc://{address}", ["Got a kettle?"], lambda step: None)

    assert set(received) == {"Bearer s3cret"}
    assert "s3cret" not in repr(record)
