"""`init`: a first suite for an agent, recorded from it, with a configuration and a CI job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from tool_call_evaluators.outcomes.recording import record_suite
from tool_call_evaluators.suite import Suite, parse_suite
from tool_call_evaluators.suite.schema import schema_text
from tool_call_evaluators.suite.writing import EDITOR_LINE, SCHEMA_FILE, block, flow
from tool_call_evaluators.texts import call_text, counted
from tool_call_evaluators.visibility import visibility_in

from ...cli.traces import variables
from ...otlp.trace_service import Tracing
from ...runs.drive import AgentOptions
from ...runs.first_message import send_first

SUITE, CONFIG, CI = "suite.yaml", "a2a-eval-proxy.yaml", ".github/workflows/agent.yml"

_HEAD = f"""\
{EDITOR_LINE}
# What a good agent does. The case was recorded: check that what the agent did was correct.
#   a2a-eval-proxy validate suite.yaml     checks this file and the agent
#   a2a-eval-proxy run suite.yaml --report report
#   a2a-eval-proxy evaluators              lists what can be scored; `evaluators NAME` shows a whole example
"""

_MORE = """\
  # A further case. Values may be placeholders: {$any: true}, {$regex: "ORD-[0-9]+"}, {$approx: 14.5, tolerance: 0.01}
  # - id: refund
  #   turns:
  #     - user: Please refund 14.50 EUR of order ORD-1002.
  #       expect: {tool_calls: [{name: issue_refund, arguments: {order_id: ORD-1002, amount_eur: 14.5}}]}
"""

_UNSEEN = """\
# The agent's tool calls cannot be seen; `a2a-eval-proxy doctor URL` says which lines show them. Then score them:
# evaluators: [tool_trajectory, tool_error], and delete `tolerate`.
evaluators: [{contains: {search_text: Traceback, negated: true}}]
tolerate: [calls_unseen]
"""

_CONFIG = """\
# Read by each a2a-eval-proxy that is started beside it; elsewhere, name it with --config. Flags take precedence.
store: a2a-eval-proxy.db
report: report
upstream: {url}  # the agent, for `serve`,
agent: {url}  # and for the commands that send messages
{otlp}"""

_CI = """\
# Runs the suite against the agent; a gate that fails fails the job. Start your agent where the comment says so.
name: agent
on: [push, pull_request]
jobs:
  evaluate:
    runs-on: ubuntu-latest
{folder}    env:
      PACKAGE: ""  # where the tool comes from: git+https://HOST/a2a-eval-proxy@REVISION; it is not on PyPI
      A2A_EVAL_PROXY_AGENT: {url}
{otlp}    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {{python-version: "3.13"}}
      - name: Install
        run: pip install "${{PACKAGE:?write in this file where a2a-eval-proxy comes from}}"
      # - run: start the agent here, in the background{variables}
      - name: Wait for the agent
        run: |
          until a2a-eval-proxy validate suite.yaml; do
              [ $? = 3 ] && [ "$SECONDS" -lt 60 ] || exit 1
              sleep 1
          done
      - name: Run
        run: a2a-eval-proxy run suite.yaml --report report
      - uses: actions/upload-artifact@v4
        if: always()
        with: {{name: report, path: {report}}}
"""


@dataclass(frozen=True, slots=True)
class FirstSuite:
    """The text of a suite, and in one line what the agent did. `unseen`: why its tool calls cannot be seen, or ""."""

    text: str
    summary: str
    unseen: str


async def first_suite(agent: AgentOptions, message: str | None = None, tracing: Tracing | None = None) -> FirstSuite:
    """Send one message to the agent, `message` or the first example of its card, and record what it does.

    `tracing` receives the agent's traces. Without a source that shows tool calls, the suite scores the response alone,
    so that it passes. Raises AgentUnreachableError, AgentError, TurnTimeoutError, ConfigError, NothingRanError.
    """
    first = await send_first(agent, message, tracing)
    asked, text, turns = first.asked, first.text, first.turns
    recorded = record_suite(turns, asked.name)
    calls = [call_text(call) for turn in turns for call in turn["tool_calls"]]
    summary = f"sent {text!r}: {counted(len(calls), 'tool call')}" + (f": {', '.join(calls)}" if calls else "")
    asked_for = (f"; {call_text(call)} waits for approval" for turn in turns for call in turn.get("approvals") or ())
    unseen = next((seen.message for seen in map(visibility_in, turns) if seen.unknown), "")
    return FirstSuite(
        _suite_text(recorded, agent.url, asked, unseen=bool(unseen)), summary + "".join(asked_for), unseen
    )


def files(suite: FirstSuite, url: str, otlp: str | None = None, below: str = "") -> dict[str, str]:
    """The texts of the files of `init`, by their names; `otlp`: where the agent sends its traces, which are needed.

    `below` is the folder of the suite in the repository, at whose top the job is.
    """
    config = f"otlp: {flow(otlp)}  # where the agent sends its traces\n" if otlp else ""
    variable = f"      A2A_EVAL_PROXY_OTLP: {flow(otlp)}\n" if otlp else ""
    needed = f", with {variables(f'http://{otlp}')}" if otlp else ""
    texts = {
        SUITE: suite.text,
        CONFIG: _CONFIG.format(url=flow(url), otlp=config),
        CI: _CI.format(
            url=flow(url),
            otlp=variable,
            variables=needed,
            folder=f"    defaults: {{run: {{working-directory: {flow(below)}}}}}\n" if below else "",
            report=flow(str(PurePosixPath(below, "report"))),
        ),
    }
    return texts | {SCHEMA_FILE: schema_text()}


def _suite_text(recorded: str, url: str, asked: Suite, *, unseen: bool) -> str:
    """The recorded suite with comments and the agent; without a recorded case, the message with nothing expected."""
    body = [line for line in recorded.splitlines() if not line.startswith("#")]
    if not parse_suite(recorded).cases:
        (case,) = asked.cases
        body += ["", "cases:", f"  - id: {flow(case.id)}", "    turns:", f"      - user: {flow(case.turns[0].user)}"]
        body.append("        # expect: {tool_calls: [{name: NAME, arguments: {KEY: VALUE}}]}")
    if unseen:
        first = next(index for index, line in enumerate(body) if line.startswith("evaluators:"))
        body[first : first + 1] = _UNSEEN.splitlines()
    first = next(index for index, line in enumerate(body) if line.startswith("suite:")) + 1
    body[first:first] = block({"agent": {"url": url}})
    return _HEAD + "\n".join(body).rstrip() + "\n\n" + _MORE
