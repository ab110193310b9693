"""What is wrong with a suite, and what of its agent cannot be seen, before anything is sent to the agent."""

from __future__ import annotations

from tool_call_evaluators.judge.question import JudgeNotConfiguredError
from tool_call_evaluators.model import UNREAD_EXPECTATION
from tool_call_evaluators.suite import Suite
from tool_call_evaluators.suite.lint import (
    missing_inputs,
    unknown_gates,
    unknown_placeholders,
    unmeasurable_gates,
    unscored_cases,
    unused_expectations,
)
from tool_call_evaluators.texts import counted

from ...runs.drive import AgentOptions, agent_client


def check_suite(suite: Suite) -> tuple[list[str], list[str]]:
    """What is wrong with `suite` itself, and with the settings of its judge: errors, with which it cannot pass, and
    warnings, as sentences."""
    unread = unused_expectations(suite)
    tolerated = unread if UNREAD_EXPECTATION in suite.tolerate else []
    warnings = [*tolerated, *missing_inputs(suite), *unknown_placeholders(suite), *unscored_cases(suite)]
    errors = [*unknown_gates(suite), *unmeasurable_gates(suite)]
    try:
        suite.check_judges()
    except JudgeNotConfiguredError as error:
        errors.append(str(error))
    return errors if tolerated else [*errors, *unread], warnings


def suite_line(suite: Suite) -> str:
    """The suite in one line: how much there is of everything."""
    turns = sum(len(case.turns) * case.conversations for case in suite.cases)
    parts = [counted(len(suite.cases), "case"), counted(turns, "scripted turn"), counted(len(suite.metrics), "metric")]
    parts += [counted(len(suite.gates), "gate")] if suite.gates else []
    return f"{suite.name}: {', '.join(parts)}"


async def check_agents(agent: AgentOptions, suite: Suite, *, traced: bool) -> tuple[list[str], list[str]]:
    """Each agent of the suite's cases in one line, by its card, and warnings about tool calls that cannot be seen.

    `traced`: traces may show them. Sends no message.
    Raises AgentUnreachableError, AgentError, ConfigurationError, ConfigError.
    """
    names = dict.fromkeys(name for case in suite.cases for name in case.agents) or (None,)
    found = [await _check_agent(agent, suite, name, traced=traced) for name in names]
    return [line for line, _ in found], [warning for _, warnings in found for warning in warnings]


async def _check_agent(agent: AgentOptions, suite: Suite, name: str | None, *, traced: bool) -> tuple[str, list[str]]:
    async with agent_client(agent, name) as (client, server):
        if server is not None:
            return f"agent {server.name}: served by this process; its tool calls are recorded", []
        card, declared = client.card, client.declared
    bindings = dict.fromkeys(f"{item.protocol_binding} {item.protocol_version}" for item in card.supported_interfaces)
    seen = "declares tool-call-capture" if declared else "does not declare tool-call-capture"
    line = f"agent {client.url}: {card.name}; {', '.join(bindings)}; {seen}"
    expected = any(
        turn.expect.calls_expected
        for case in suite.cases
        for index, turn in enumerate(case.turns)
        if case.agent_at(index) == name
    )
    reading = sorted(item.metric for spec in suite.specs if (item := spec.build()).reads_calls)
    if declared or traced or agent.dialects or not (expected or reading):
        return line, []
    its_card = f"the card of {name}" if name else "the agent's card"
    why = "tool calls are expected" if expected else f"{', '.join(reading)} need tool calls"
    return line, [
        f"{why}, and {its_card} does not declare the tool-call-capture extension: `run` cannot see any, and does "
        "not pass; declare it, receive the agent's traces with --otlp, choose a dialect with --dialects, or accept it "
        "with --allow-no-capture"
    ]
