"""The bridges with the real frameworks and scripted models, each in a process of the frameworks' environment."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from a2a_tool_capture.function_parts import function_outcome
from a2a_tool_capture.spec import NOT_RECORDED_KEY
from support.linked import beside_the_extension, brought_by
from support.provision import python_environment

pytestmark = [pytest.mark.installs, pytest.mark.about("extension/a2a_tool_capture/bridges", "tests/extension/bridges")]

PROGRAMS = Path(__file__).parent
FRAMEWORKS = ["langchain", "google_adk", "pydantic_ai", "mcp"]
TIMEOUT_S = 100

SHIPPED = '{"order": "ORD-1", "status": "shipped"}'


@functools.cache
def report(framework: str) -> dict[str, Any]:
    """What a program saw, with the packages that the extra of its framework brings, as the page says."""
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("CI", raising=False)  # frameworks are extras: without them there is nothing to test
        python = python_environment("frameworks")
    with TemporaryDirectory() as folder:
        run = subprocess.run(
            [python, "-S", PROGRAMS / f"{framework}_program.py"],
            env={"PATH": os.environ["PATH"], **beside_the_extension(Path(folder), python, brought_by(framework))},
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    assert run.returncode == 0, run.stderr
    told: dict[str, Any] = json.loads(run.stdout)
    return told


def brief(calls: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Name, arguments, result and error, by name: calls made at once start in any order."""
    told = [(call["name"], call["arguments"], _value(call["result"]), call["error"]) for call in calls]
    return sorted(told, key=lambda call: str(call[:2]))


def _value(result: str | None) -> Any:
    """A result without its white space, if it is JSON."""
    try:
        return json.dumps(json.loads(result or "no JSON"))
    except ValueError:
        return result


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_calls_of_requests_at_the_same_time_are_told_apart(framework: str) -> None:
    nothing = '{"result": null}' if framework == "mcp" else "null"
    for request, order, shipped in (("first", "ORD-1", 1), ("second", "ORD-2", 2)):
        told = report(framework)[request]
        assert told["raised"] is None
        assert brief(told["calls"]) == [
            ("forget", {}, nothing, None),
            ("look_up", {"order_id": order}, SHIPPED.replace("ORD-1", order), None),
            ("ship", {"count": shipped}, "x" * shipped, None),
        ]
        assert all(call["started_at"] <= call["ended_at"] for call in told["calls"])
        ids = {call["id"]: call["name"] for call in told["calls"]}
        assert framework == "mcp" or ids == {"c0": "look_up", "c1": "ship", "c2": "forget"}, "as the model gave them"


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if name != "mcp"])
def test_an_exception_is_the_error_of_the_call_and_goes_on_its_way(framework: str) -> None:
    told = report(framework)["failing"]
    assert told["raised"] == "PermissionError: ORD-3 cannot be refunded"
    assert brief(told["calls"]) == [("refund", {"order_id": "ORD-3"}, None, "ORD-3 cannot be refunded")]


# ── what each framework makes of a failure ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("returned", [{"error": "fully booked"}, {"result": "room 7"}, {"rooms": 7}])
def test_what_an_adk_tool_returns_is_what_its_data_parts_say(returned: dict[str, Any]) -> None:
    (call,) = report("google_adk")[f"returned {json.dumps(returned)}"]["calls"]
    said = function_outcome(returned)
    assert (call["result"], call["error"]) == (said.result, said.error)


@pytest.mark.parametrize(
    ("framework", "arguments", "said"),
    [
        ("langchain", {"count": "many"}, "should be a valid integer"),
        ("pydantic_ai", {"size": "many"}, "Field required"),
    ],
)
def test_arguments_that_the_tool_does_not_take_are_an_error(
    framework: str, arguments: dict[str, str], said: str
) -> None:
    call = report(framework)["invalid"]["calls"][0]
    assert call["arguments"] == arguments
    assert said in call["error"]


def test_an_mcp_call_that_takes_too_long_is_an_error_and_raised() -> None:
    told = report("mcp")["timed out"]
    assert "Timed out" in told["raised"]
    assert "Timed out" in brief(told["calls"])[0][3]


# ── OpenAI Agents SDK: calls as its tracing tells them ──────────────────────────────────────────────────────


def test_calls_say_that_they_were_learnt_from_its_tracing() -> None:
    told = report("openai_agents")
    assert {call["source"] for call in told["first"] + told["extracted"]} == {"openai_agents"}
    assert all(call["id"] and call["started_at"] < call["ended_at"] for call in told["first"])
    assert {call["id"]: call["name"] for call in told["extracted"]} == {"c0": "look_up", "c1": "refund", "c2": "ship"}


def test_a_request_says_so_if_the_tracing_of_the_sdk_is_disabled() -> None:
    assert report("openai_agents")["silent"] == {
        "False": {},
        "True": {NOT_RECORDED_KEY: ["the OpenAI Agents SDK reported nothing: is its tracing disabled?"]},
    }


def openai_run(order: str) -> list[tuple[Any, ...]]:
    return [
        ("look_up", {"order_id": order}, SHIPPED.replace("ORD-1", order), None),
        ("refund", {"order_id": order}, None, "not allowed"),
        ("ship", {"count": 2}, "xx", None),
    ]


WITHHELD = "Tool execution failed. Error details are redacted."


@pytest.mark.parametrize(
    ("framework", "request_name", "calls"),
    [
        *((framework, "example", [("look_up", {"order_id": "ORD-1"}, SHIPPED, None)]) for framework in FRAMEWORKS),
        *(
            (
                framework,
                "threads",
                [
                    ("look_up", {"order_id": order}, SHIPPED.replace("ORD-1", order), None)
                    for order in ("ORD-1", "ORD-2")
                ],
            )
            for framework in ("langchain", "pydantic_ai")
        ),
        ("langchain", "alone", [("flaky", {"q": "kettle"}, "KETTLE", None)]),
        ("pydantic_ai", "pending", [("guarded", {"q": "kettle"}, None, None)]),
        ("mcp", "failing", [("refund", {"order_id": "ORD-3"}, None, "Error executing tool refund")]),
        ("mcp", "unknown", [("no_such_tool", {}, None, "Unknown tool: no_such_tool")]),
        (
            "mcp",
            "picture",
            [
                (
                    "picture",
                    {},
                    json.dumps(
                        [{"type": "text", "text": "see"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]
                    ),
                    None,
                )
            ],
        ),
        (
            "openai_agents",
            "extracted",
            [
                ("look_up", {"order_id": "ORD-5"}, SHIPPED.replace("ORD-1", "ORD-5"), None),
                ("refund", {"order_id": "ORD-5"}, "the model reads something else", None),
                ("ship", {"count": 2}, "xx", None),
            ],
        ),
        ("langchain", "retried", [("flaky", {"q": "kettle"}, "KETTLE", None)]),
        ("langchain", "handled", [("polite", {"q": "kettle"}, None, "no kettle here")]),
        ("langchain", "command", [("move", {"to": "Rome"}, "moved to Rome", None)]),
        ("google_adk", "handled", [("excused", {}, None, "not today")]),
        ("google_adk", "pending", [("ask_a_human", {}, None, None)]),
        (
            "pydantic_ai",
            "retried",
            [("picky", {"q": "kettle"}, None, "say it again"), ("picky", {"q": "kettle"}, "KETTLE", None)],
        ),
        ("openai_agents", "first", openai_run("ORD-1")),
        ("openai_agents", "second", openai_run("ORD-2")),
        ("openai_agents", "connector", openai_run("ORD-6")),
        ("openai_agents", "example", [("look_up", {"order_id": "ORD-1"}, SHIPPED, None)]),
        (
            "openai_agents",
            "hidden",
            [("look_up", None, None, None), ("refund", None, None, WITHHELD), ("ship", None, None, None)],
        ),
    ],
)
def test_the_calls_of_a_request(framework: str, request_name: str, calls: list[tuple[Any, ...]]) -> None:
    told = report(framework)[request_name]
    if isinstance(told, dict):
        assert told["raised"] is None
        told = told["calls"]
    assert brief(told) == calls
