"""The tools that `mcp` offers to a coding agent."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a2a_tool_capture import __version__
from jinja2 import PackageLoader
from tool_call_evaluators import load_suite
from tool_call_evaluators.matching.arguments import ArgumentMatcher
from tool_call_evaluators.report.templating import plain_text
from tool_call_evaluators.report.text_forms import turn_text
from tool_call_evaluators.suite import Suite, SuiteError
from tool_call_evaluators.suite.yaml_document import read_text
from tool_call_evaluators.visibility import calls_in

from ...errors import GATE_FAILED, PASSED, ConfigError
from ...ids import new_run_name
from ...runs.call_differences import diff_lines
from ...runs.run_plan import Selection
from ...runs.run_result import run_json
from ...runs.stored_turns import open_existing_store
from ...runs.tables import StoredRun, agents_asked, find, stored_runs
from ...scoring.case_book import CaseBook
from ...scoring.turn_in_case import turn_in_case
from ...store import StoreError
from .options import McpOptions

if TYPE_CHECKING:
    from mcp.server import MCPServer

MAX_CHARACTERS = 20_000  # of an answer: it takes room in the context of a model
_MOST_RUNS = 30
_TEMPLATES = PackageLoader(__package__, "")
_MAX_MESSAGE = 2_000  # characters of what a program says that went wrong, the last ones

_INSTRUCTIONS = """\
Evaluates an A2A agent by its tool calls. To repair a failing agent: list_runs; show_run for the turns that failed, and
why; show_turn for the calls, and how they differ from the expected ones; change the agent; run_cases with the failed
cases. Propose accept_changes only where the new behaviour is intended: it changes what the suite expects."""


def tools_server(options: McpOptions) -> MCPServer:
    """The MCP server with the tools. Raises ConfigError without the extra [mcp], SuiteError without the suite file."""
    try:
        from mcp.server import MCPServer
        from mcp.types import ToolAnnotations
    except ImportError:
        raise ConfigError("mcp: requires the extra: pip install 'a2a-eval-proxy[mcp]'") from None
    if options.suite is not None:
        read_text(Path(options.suite))  # what is wrong in it, the tools say: the coding agent may be editing it
    server: MCPServer = MCPServer(
        "a2a-eval-proxy", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING"
    )
    tools = Tools(options)
    for tool in tools.all():
        reads = tool not in (tools.run_cases, tools.accept_changes)
        notes = ToolAnnotations(read_only_hint=reads, destructive_hint=False, open_world_hint=tool == tools.run_cases)
        text = inspect.getdoc(tool)
        server.tool(description=text, annotations=notes, structured_output=False)(_answering(tool))
    return server


class Tools:
    """What the coding agent may call. Every answer is text of at most `MAX_CHARACTERS`.

    They raise ConfigError, StoreError or SuiteError for what the caller can correct.
    """

    def __init__(self, options: McpOptions) -> None:
        self._options = options

    def all(self) -> list[Any]:
        tools = [self.list_runs, self.show_run, self.show_turn, self.run_cases, self.explain_evaluator]
        return [*tools, self.accept_changes] if self._options.allow_accept else tools

    async def list_runs(self, agent: str | None = None) -> str:
        """List the runs in the store, newest first: name, verdict, time, number of turns, and of results by status.

        agent: only runs with turns of this one of several agents behind a proxy.
        """
        runs = await stored_runs(self._options.store, agent)
        lines = [json.dumps(run_json(run), ensure_ascii=False, default=str) for run in runs[:_MOST_RUNS]]
        return _bounded([*lines, *([f"and {len(runs) - _MOST_RUNS} older"] if len(runs) > _MOST_RUNS else [])])

    async def show_run(self, run: str, failed_only: bool = True, agent: str | None = None) -> str:
        """Show the turns of a run, each with its id, case and the reasons of its failures.

        With failed_only false, turns that passed are listed, too. agent: only those of this one of several agents.
        """
        found = await find(self._options.store, run, agent)
        if not isinstance(found, StoredRun):
            raise ConfigError(f"{run!r} is a turn; use show_turn")
        return _bounded([plain_text("run.txt", _TEMPLATES, run=found, failed_only=failed_only, repr=repr)])

    async def show_turn(self, turn_id: str) -> str:
        """Show a turn: messages, calls with results, scores with reasons, and its differences from the expected calls.

        In the differences, - is expected and was not made, + was made and not expected, ~ differs, > is out of order.
        """
        turn = await find(self._options.store, turn_id)
        if isinstance(turn, StoredRun):
            raise ConfigError(f"{turn_id!r} is a run; use show_run, which lists the ids of its turns")
        lines = []
        if (suite := self._suite()) is not None and turn["case_id"]:
            async with open_existing_store(self._options.store) as store:
                planned = await turn_in_case(CaseBook(suite), store, turn)
            expect = planned.turn.expect
            if expect is not None and expect.tool_calls is not None:
                made = calls_in(turn)
                details = [result["details"] for result in turn["evaluations"]]
                compared = diff_lines(expect.tool_calls, made, "in_order", ArgumentMatcher(), details)
                lines = ["expected and made:", *compared, ""]
        return _bounded([*lines, turn_text(turn), await agents_asked(self._options.store, turn)])

    async def run_cases(self, cases: Sequence[str] = (), tags: Sequence[str] = ()) -> str:
        """Run cases of the suite against the agent, and score them: those with these ids or patterns, and these tags.

        Without either, all cases run. The answer has the verdict, its reasons, and the name of the new run.
        """
        suite = self._suite()
        if suite is None:
            raise ConfigError("no suite: start the server with --suite FILE")
        Selection(cases, tags).of(suite)
        name = new_run_name(suite.name)
        given = [f"--run={name}", *(f"--case={case}" for case in cases), *(f"--tag={tag}" for tag in tags)]
        given += ["--agent", self._options.agent] if self._options.agent else []
        return _bounded([f"run {name}", await self._command("run", str(self._options.suite), *given)])

    async def explain_evaluator(self, name: str) -> str:
        """Explain an evaluator: what it measures, its options, and a suite as an example."""
        return _bounded([await self._command("evaluators", "--", name)])

    async def accept_changes(self, run: str, cases: Sequence[str] = (), dry_run: bool = True) -> str:
        """Let the suite expect what the agent did in a run, where expectations failed. Shows the change of the file.

        Only where the new behaviour is intended. With dry_run true, nothing is written.
        cases: ids or patterns; all if empty.
        """
        if self._options.suite is None:
            raise ConfigError("no suite: start the server with --suite FILE")
        given = [f"--run={run}", "--dry-run" if dry_run else "--yes", *(f"--case={case}" for case in cases)]
        return _bounded([await self._command("accept", self._options.suite, *given)])

    def _suite(self) -> Suite | None:
        if self._options.suite is None:
            return None
        return load_suite(Path(self._options.suite), allow_plugins=self._options.allow_plugins)

    async def _command(self, name: str, *given: str) -> str:
        """What a command says, in a process of its own, which ends with its caller.

        Raises ConfigError with its message where it could not do what it was asked to.
        """
        plugins = ["--allow-plugins"] if self._options.allow_plugins and name != "evaluators" else []
        settings = {"A2A_EVAL_PROXY_STORE": self._options.store}  # others would see a password in the arguments
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "a2a_eval_proxy", name, *plugins, *given, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=os.environ | settings,
        )  # fmt: skip
        try:
            out, err = (data.decode(errors="replace") for data in await program.communicate())
        finally:
            if program.returncode is None:
                program.terminate()
        if program.returncode not in (PASSED, GATE_FAILED):
            raise ConfigError(err.strip()[-_MAX_MESSAGE:])
        return out + (err if name == "accept" else "")


def _answering(tool: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str]]:
    """`tool`, whose error is the answer where the caller can do something about it."""
    from mcp.server.mcpserver.exceptions import ToolError

    @functools.wraps(tool)
    async def answering(*args: Any, **given: Any) -> str:
        try:
            return await tool(*args, **given)
        except (ConfigError, StoreError, SuiteError) as error:
            raise ToolError(str(error)) from None

    return answering


def _bounded(lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}\n… and {len(text) - MAX_CHARACTERS:,} more characters"
