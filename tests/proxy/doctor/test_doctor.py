"""`doctor`: what it says of agents that show their calls, or do not, and that its lines are those of the pages."""

from __future__ import annotations

import re
import socket
from typing import Any

import pytest
from a2a_eval_proxy.features.doctor.diagnosis import diagnose
from a2a_eval_proxy.features.doctor.frameworks import CAN_BE_NAMED, Framework, recognised
from agents.scenario_agent import AgentOptions, scenario_agent
from e2e.frameworks.page_code import section
from support.commands import run
from support.linked import EXTENSION
from support.turn_samples import call, finding, turn

RUNNING = "receiving traces; the agent needs OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:"


def doctor(agent: str, *more: str) -> tuple[int, str, str]:
    """The exit code of the command, what it printed, and what it said on stderr."""
    done = run("doctor", agent, "--otlp", "127.0.0.1:0", "--trace-wait", "0.1", "--message", *more)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("message", "calls"), [("chunks please", 2), ("message me", 0)])
def test_an_agent_that_declares_the_extension_needs_nothing(message: str, calls: int) -> None:
    with scenario_agent() as agent:
        code, out, err = doctor(agent.url, message, "--trace-wait", "100000")
    assert err.startswith(RUNNING)
    assert f"extension  declared on the agent card: {calls} calls\ntraces     none received: 0 calls\n" in out, err
    assert (code, "all seen" in out) == ((0, True) if calls else (1, False))
    assert "framework" not in out, "there is nothing to add"


def test_beside_a_program_that_receives_traces_another_address_is_proposed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, scenario_agent(AgentOptions(declared=False)) as agent:
        port = other.getsockname()[1]
        _, out, err = doctor(agent.url, "message me", "--otlp", f"127.0.0.1:{port}", "--trace-wait", "100000")
    assert not err
    assert f"traces     not received (cannot listen on 127.0.0.1:{port}: " in out
    assert out.endswith(f" --otlp 127.0.0.1:{port + 1}\n")


def test_an_agent_that_shows_nothing_gets_the_lines_of_its_framework() -> None:
    with scenario_agent(AgentOptions(declared=False)) as agent:
        unknown = doctor(agent.url, "message me")
        named = doctor(agent.url, "message me", "--framework", "crewai")
    assert unknown[0] == named[0] == 1
    assert "extension  not declared on the agent card: 0 calls" in unknown[1]
    assert "framework  not recognised: name it with --framework (a2a-sdk, kagent, google-adk, langchain" in unknown[1]
    assert "    handler = CapturingRequestHandler(agent, InMemoryTaskStore(), card, recorder=recorder)\n" in unknown[1]
    assert "an agent that sends traces needs\n    OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:0 " in unknown[1]
    assert "tool calls are not all seen: the agent's card does not declare" in named[1]
    assert f"pip install '{EXTENSION}[a2a-sdk]'\n    from a2a_tool_capture import ToolCallRecorder\n" in named[1]
    assert "    @recorder.tool\n" in named[1]
    assert "openinference-instrumentation-crewai\n" in named[1]
    again = f"doctor {agent.url} --message 'message me' --framework crewai --otlp 127.0.0.1:0\n"
    assert named[1].endswith(again)


def test_calls_found_by_time_alone_are_not_all_seen() -> None:
    found = turn("1", calls=[call("look_up")], findings=[finding("correlated_by_time", "info")])
    found["capture"] |= {"protocol_only": 0, "trace_only": 1}
    shown = lines_of(found, "orders")
    assert "calls of concurrent conversations will be unknown (trace_contested)" in shown
    assert (
        "StarletteInstrumentor().instrument_app(app)\nor hold one conversation at a time: run --concurrency 1" in shown
    )


def test_calls_that_traces_alone_show_need_a_receiver_in_each_command() -> None:
    found = turn("1", calls=[call("look_up")])
    found["capture"] |= {"protocol_only": 0, "trace_only": 1}
    text, all_seen = diagnose("http://agent", {}, "hello", found, ["orders"], "127.0.0.1:4318")
    last = "all seen, by traces: `init` and `run` need --otlp 127.0.0.1:4318 as well"
    assert (all_seen, text.splitlines()[-1]) == (True, last)


def lines_of(found: dict[str, Any], *scopes: str, card: object = None) -> str:
    text, all_seen = diagnose("http://agent", card or {}, "hello", found, scopes, "127.0.0.1:4318")
    assert not all_seen
    return text


@pytest.mark.parametrize(
    ("scope", "source", "switch"),
    [
        ("gcp.vertex.agent", "otel_trace", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"),
        ("agent_framework", "otel_trace", "ENABLE_SENSITIVE_DATA=true"),
        ("openinference.instrumentation.crewai", "otel_trace", "without OPENINFERENCE_HIDE_INPUTS and"),
        (
            "openinference.instrumentation.openai_agents",
            "a2a_protocol",
            "RunConfig(trace_include_sensitive_data=False)",
        ),
        ("orders", "otel_trace", "attributes gen_ai.tool.call.arguments and gen_ai.tool.call.result"),
        ("pydantic-ai", "otel_trace", "without InstrumentationSettings(include_content=False)"),
    ],
)
def test_calls_without_content_need_a_switch_alone(scope: str, source: str, switch: str) -> None:
    call = {"id": "1", "name": "look_up", "arguments": None, "result": None, "error": None}
    shown = lines_of(turn("1", calls=[{**call, "source": source}]), scope)
    assert "arguments or results are not seen: look_up; content is left out" in shown
    assert switch in shown
    assert "by the extension" not in shown


@pytest.mark.parametrize(
    ("card", "scopes", "marks", "key"),
    [
        ({}, ["opentelemetry.instrumentation.starlette", "gcp.vertex.agent"], [], "google-adk"),
        ({}, [], ["adk_type"], "google-adk"),
        ({"description": "An ADK Agent"}, [], [], "google-adk"),
        ({}, ["fasta2a.worker", "pydantic-ai"], [], "pydantic-ai"),
        ({"description": "An AI agent exposed as an A2A agent."}, [], [], "pydantic-ai"),
        ({"defaultInputModes": ["application/vnd.ag2.history+json"]}, [], [], "ag2"),
        ({}, ["opentelemetry.instrumentation.ag2"], [], "ag2"),
        ({}, ["openinference.instrumentation.openai_agents"], [], "openai-agents"),
        ({}, ["openinference.instrumentation.llama_index"], [], "llama-index"),
        ({}, ["agent_framework"], [], "agent-framework"),
        ({"description": "Uses LangGraph"}, ["openinference.instrumentation.crewai"], [], "crewai"),
        ({}, ["@opentelemetry/instrumentation-http"], [], "javascript"),
    ],
)
def test_a_framework_is_recognised(card: Any, scopes: list[str], marks: list[str], key: str) -> None:
    found = recognised(card, scopes, marks)
    assert found is not None
    assert found[0].key == key


def test_an_agent_of_no_framework_is_none() -> None:
    assert recognised({"name": "Orders", "description": "Knows orders"}, ["a2a-python-sdk"], []) is None


@pytest.mark.parametrize("framework", CAN_BE_NAMED, ids=lambda framework: framework.key)
def test_the_lines_are_those_of_the_page(framework: Framework) -> None:
    page, _, heading = framework.page.partition("#")
    text = section(framework.key) if heading else (EXTENSION / "docs/frameworks" / page).read_text("utf-8")
    text += section("Traces")
    added = {line.lstrip("+").strip() for line in text.splitlines() if line.startswith("+")}
    assert set(framework.extension) <= added
    every = {line.lstrip("+ ").strip() for line in text.splitlines()}
    assert set(framework.code) <= every
    words = re.split(r"[\s\\]+", text)
    needed = [framework.install, framework.instrumentation, framework.variables]
    if framework.extension and framework.trace_packages:
        needed += [framework.trace_packages, framework.start]
    assert set(" ".join(needed).split()) <= set(words)
    switches = re.findall(r"\w+\(\S+\)|[A-Z_]{9,}(?:=\w+)?", " ".join(framework.content))
    assert all(f"`{switch}`" in text for switch in switches)
    assert f"--dialects {framework.dialects}" in text or not framework.dialects
