"""What `serve` says of the agent at its start."""

from __future__ import annotations

from typing import Any

import pytest
from a2a_eval_proxy.admin.agent_status import status_of, unreachable
from a2a_eval_proxy.net.http_client import UpstreamUnreachableError
from a2a_eval_proxy.settings.settings import Settings
from a2a_tool_capture import URI

TRACES = "http://127.0.0.1:4318"


def card(*, declares: bool, **fields: Any) -> dict[str, Any]:
    return {
        "name": "Shop",
        "supportedInterfaces": [{"url": "http://a", "protocolBinding": name} for name in ("JSONRPC", "HTTP+JSON")],
        "capabilities": {"extensions": [{"uri": URI}] if declares else []},
        **fields,
    }


def settings(**given: Any) -> Settings:
    return Settings(upstream="http://127.0.0.1:9999", **given)


@pytest.mark.parametrize(
    ("declares", "given", "traces", "expected"),
    [
        (True, {}, TRACES, "; declares tool-call-capture: its tool calls are captured"),
        (
            True,
            {"negotiate": "never"},
            None,
            "; declares tool-call-capture, but is not asked for tool calls (negotiate: never), and no traces are "
            "received: its tool calls are not visible",
        ),
        (
            False,
            {},
            TRACES,
            "; does not declare tool-call-capture: its tool calls are captured only from traces that it sends to "
            f"{TRACES}",
        ),
        (
            False,
            {},
            None,
            "; does not declare tool-call-capture, and no traces are received: its tool calls are not visible",
        ),
        (
            False,
            {"dialects": ("adk",)},
            TRACES,
            "; does not declare tool-call-capture: its tool calls are captured from messages (adk) and from traces "
            f"that it sends to {TRACES}",
        ),
        (
            False,
            {"negotiate": "always"},
            None,
            "; does not declare tool-call-capture, and is asked for tool calls all the same (negotiate: always)",
        ),
    ],
)
def test_what_the_card_means(declares: bool, given: dict[str, Any], traces: str | None, expected: str) -> None:
    line = status_of(card(declares=declares), settings(**given), traces).line
    warns = "only" in expected or "not visible" in expected
    assert line == f"{'warning: ' if warns else ''}agent Shop: JSONRPC, HTTP+JSON{expected}"


OLD = {"name": "Old", "url": "http://a", "additionalInterfaces": [{"url": "http://a", "transport": "GRPC"}]}


def test_a_card_of_the_older_version() -> None:
    assert "agent Old: GRPC, JSONRPC; does not" in status_of(OLD, settings(), None).line


@pytest.mark.parametrize("odd", [None, [], {}, {"name": 3}, {"name": {}, "supportedInterfaces": "x"}])
def test_an_odd_card_is_still_one_line(odd: Any) -> None:
    line = status_of(odd, settings(), None).line
    assert "no binding; does not declare tool-call-capture" in line
    assert "\n" not in line


def test_a_name_cannot_steer_the_terminal() -> None:
    line = status_of(card(declares=True, name="\x1b]0;x\x07\nready\u202e" + "y" * 10_000), settings(), None).line
    assert line.isprintable()
    assert len(line) < 500


def test_why_there_is_no_card() -> None:
    away = "agent http://127.0.0.1:9999 is unreachable, and requests fail until it is up: "
    for error, said in (
        (UpstreamUnreachableError("Connection refused"), f"{away}connection refused; is the agent running?"),
        (TimeoutError(), f"{away}it does not respond"),
        (ValueError("no agent card at http://a"), "no agent card at http://a: clients find no card"),
    ):
        assert unreachable(settings(), error).line.startswith(f"warning: {said}")
