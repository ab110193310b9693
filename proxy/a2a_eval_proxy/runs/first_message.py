"""A first message to an agent, in a run of its own that is not kept: what `init` and `doctor` begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from a2a_tool_capture.client import CaptureClient
from a2a_tool_capture.errors import AgentError
from a2a_tool_capture.wire import FAILED_STATES
from google.protobuf.json_format import MessageToDict
from tool_call_evaluators.suite import Case, CaseTurn, Suite
from tool_call_evaluators.suite.writing import slug
from tool_call_evaluators.texts import state_text
from tool_call_evaluators.visibility import AGENT_UNREACHABLE, Calls

from ..otlp.trace_service import Tracing
from ..turn import Turn
from .drive import AgentOptions, run_suite
from .run_result import RunWatch
from .served_agents import speaks_a2a

_NO_ANSWER = (AGENT_UNREACHABLE, "agent_error")

_GREETING = "Hello, what can you do?"  # what is sent if the card gives no example and the user no message


@dataclass(frozen=True, slots=True)
class FirstMessage:
    """The agent's card as JSON, the message, the suite with it as its one case, and the turns in JSON."""

    card: dict[str, Any]
    text: str
    asked: Suite
    turns: list[dict[str, Any]]


class _FirstTurn(RunWatch):
    """Has the run not wait for spans where nothing is missing: the agent did not answer, or all is known."""

    def __init__(self, tracing: Tracing | None) -> None:
        super().__init__()
        self._tracing = tracing

    def stored(self, turns: Sequence[Turn]) -> None:
        unanswered = any(finding.code in _NO_ANSWER for turn in turns for finding in turn.findings)
        if self._tracing and (unanswered or all(map(_nothing_is_missing, turns))):
            self._tracing.expect(None, wait_s=0.0, expected=False)


def _nothing_is_missing(turn: Turn) -> bool:
    """Whether the agent's calls are known without its spans, each with arguments and an outcome."""
    whole = all(call.arguments is not None and call.result != call.error for call in turn.tool_calls)
    return whole and turn.visibility.calls is not Calls.UNKNOWN


async def send_first(agent: AgentOptions, message: str | None, tracing: Tracing | None) -> FirstMessage:
    """Send one message to the agent, `message` or the first example of its card.

    `tracing` receives the agent's traces. Raises AgentUnreachableError, TurnTimeoutError, ConfigError, NothingRanError,
    and AgentError, also for an agent that answered with an error, or whose task failed without a call.
    """
    card = await _card(agent)
    examples = [example for skill in card.get("skills", ()) for example in skill.get("examples", ()) if example.strip()]
    text = message or next(iter(examples), _GREETING)
    name = slug(str(card.get("name", ""))) or "agent"
    asked = Suite(name=name, cases=(Case(id=slug(text) or "case", turns=(CaseTurn(user=text),)),))
    with TemporaryDirectory() as folder:
        watch = _FirstTurn(tracing)
        result = await run_suite(asked, agent, str(Path(folder, "turns.db")), "init", watch=watch, tracing=tracing)
    turns = [dict(turn) for turn in result.report.turns]
    for finding in (finding for turn in turns for finding in turn["findings"] if finding["code"] in _NO_ANSWER):
        raise AgentError(f"the agent did not answer {text!r} (--message sends another): {finding['message']}")
    for turn in turns:
        if turn["state"] in FAILED_STATES and not turn["tool_calls"]:
            why = turn["response_text"] or f"its task ended as {state_text(turn['state'])}"
            raise AgentError(f"the agent failed {text!r} ({why}); read its log, or send another with --message")
    return FirstMessage(card, text, asked, turns)


async def _card(agent: AgentOptions) -> dict[str, Any]:
    """The agent's card, as JSON; with the name alone for an agent that does not speak A2A."""
    if not speaks_a2a(agent.url):
        return {"name": agent.url.partition("?")[0]}
    async with CaptureClient(agent.url, headers=agent.headers, tls=agent.tls, binding=agent.binding) as client:
        return dict(MessageToDict(client.card))
