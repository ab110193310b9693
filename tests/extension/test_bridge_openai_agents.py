"""The OpenAI Agents bridge with the real SDK and a scripted model, in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from e2e.provision import python_environment

EXTENSION = Path(__file__).parents[2] / "extension"
PROGRAM = Path(__file__).with_name("openai_agents_program.py")

Calls = list[dict[str, Any]]


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("CI", raising=False)  # the SDK is an extra: without it there is nothing to test
        python = python_environment("frameworks")
    run = subprocess.run(
        [python, PROGRAM],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(EXTENSION)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    told: dict[str, Any] = json.loads(run.stdout)
    return told


def brief(calls: Calls) -> list[tuple[Any, ...]]:
    return [(call["name"], call["arguments"], call["result"], call["error"]) for call in calls]


@pytest.mark.parametrize(("request_name", "order_id"), [("first", "ORD-1"), ("second", "ORD-2")])
def test_each_request_has_the_calls_of_its_run(seen: dict[str, Any], request_name: str, order_id: str) -> None:
    assert brief(seen[request_name]) == [
        ("look_up", {"order_id": order_id}, json.dumps({"order": order_id, "status": "shipped"}), None),
        ("refund", {"order_id": order_id}, None, "not allowed"),
        ("ship", {"count": 2}, "xx", None),
    ]


def test_calls_say_where_they_were_learnt(seen: dict[str, Any]) -> None:
    assert {call["source"] for call in seen["first"]} == {"openai_agents"}
    assert all(call["id"] and call["started_at"] < call["ended_at"] for call in seen["first"])


def test_content_the_sdk_withholds_is_unknown(seen: dict[str, Any]) -> None:
    assert brief(seen["hidden"]) == [
        ("look_up", None, None, None),
        ("refund", None, None, "Tool execution failed. Error details are redacted."),
        ("ship", None, None, None),
    ]


def test_outside_of_requests_nothing_is_recorded(seen: dict[str, Any]) -> None:
    assert seen["outside"] == {}
