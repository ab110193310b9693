"""`demo`: a sample agent, the proxy in front, a suite's traffic and the results, in one process."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from tool_call_evaluators.agent_tree import totals
from tool_call_evaluators.report import Report
from tool_call_evaluators.report.tree import tree_lines
from tool_call_evaluators.suite import Case, Suite, load_suite
from tool_call_evaluators.texts import score_text

from ..app import RunningProxy, run_proxy
from ..children import stop_signal
from ..graph.trees import trees_of
from ..runs.report_files import publish_report
from ..runs.run_result import judge_turns
from ..runs.stored_turns import write_turns
from ..runs.tables import passed, turn_table
from ..settings import Settings
from ..settings.options import load
from .agent import run_agent
from .client import CASE_HEADER, send_suite
from .desk import ORCHESTRATOR, ORDERS, REFUNDS, running_desk

SUITE = Path(__file__).with_name("suite.yaml")
AGENTS_SUITE = Path(__file__).with_name("agents.yaml")
RUN = "demo"
STORE = "turns.db"
FLUSH_TIMEOUT_S = 30.0

Turn = Mapping[str, Any]


async def tell(keep: bool, *, console: Console) -> None:
    """Run the demo and print it; `keep` leaves agent and proxy running until SIGINT or SIGTERM.

    Failing cases are intended. Store, export and report stay in a new temporary folder. Raises ListenError if no port
    is free.
    """
    suite, folder = load_suite(SUITE), _folder()
    async with (
        run_agent(folder / "shop.db") as agent_url,
        _running_proxy(folder, upstream=agent_url, suite=str(SUITE)) as proxy,
    ):
        console.print(f"Sample agent: {agent_url}   proxy: {proxy.url}", soft_wrap=True)
        seen = await _traffic(proxy.url, suite, console)
        turns = await _finished(proxy, RUN)
        _summarize(turns, suite, seen, sum(len(turn["tool_calls"]) for turn in turns), console)
        _say_what_failed(
            "The agent has weaknesses on purpose; finding them is what the evaluators are for.", turns, console
        )
        if not keep:
            _by_hand(suite, console)
        await _write(folder, judge_turns(suite, turns, {}, RUN).report, console)
        if keep:
            await _stay(
                f"""curl -s {proxy.url}/.well-known/agent-card.json
  {_curl_message(proxy.url, suite.cases[0])}
  curl -s '{proxy.admin_url}/api/turns?run={RUN}&limit=1'""",
                console,
            )


async def tell_of_agents(keep: bool, *, console: Console) -> None:
    """Run the demo of three agents that ask each other, as the demo of one."""
    suite, folder, run = load_suite(AGENTS_SUITE), _folder(), f"{RUN}-{ORCHESTRATOR}"
    async with running_desk(folder / "shop.db") as desk:
        agents = {name: {"upstream": url} for name, url in desk.urls.items()}
        agents[ORCHESTRATOR]["suite"] = str(AGENTS_SUITE)
        async with _running_proxy(folder, agents=agents) as proxy:
            desk.entrance = proxy.url
            console.print(
                f"Three agents behind one proxy, {proxy.url}/agents: {ORCHESTRATOR} asks {ORDERS} and {REFUNDS}, and "
                f"{REFUNDS} asks {ORDERS}.",
                soft_wrap=True,
            )
            seen = await _traffic(desk.address(ORCHESTRATOR), suite, console)
            turns = await _finished(proxy, run)
            trees = await trees_of(proxy.store, [turn["turn_id"] for turn in turns])
            _summarize(turns, suite, seen, sum(totals(tree).tool_calls for tree in trees.values()), console)
            failed = [turn for turn in turns if not passed(turn)]
            for turn in failed:
                lines = "\n  ".join(tree_lines(trees[turn["turn_id"]], turn["turn_id"]))
                console.print(
                    f"\n{turn['case_id']}: the answer looks right.\n\n"
                    f"  user:   {turn['user_text']}\n  answer: {turn['response_text']}\n\n  {lines}",
                    markup=False,
                    soft_wrap=True,
                )
            _say_what_failed(f"{REFUNDS} has a fault on purpose, which only the tree shows.", turns, console)
            report = replace(judge_turns(suite, turns, {}, run).report, trees=trees)
            await _write(folder, report, console)
            if not keep:
                program, _ = _programs()
                console.print(f"Pages:  {program} ui --store {folder / STORE}", markup=False, soft_wrap=True)
            if keep:
                pages = "\n".join(f"  {proxy.admin_url}/turns/{turn['turn_id']}" for turn in failed)
                await _stay(
                    f"""curl -s {proxy.url}/agents
  {_curl_message(desk.address(ORCHESTRATOR), suite.cases[0])}
  curl -s '{proxy.admin_url}/api/turns?run={run}&limit=1'

In a browser, the turn that failed, with its tree; follow it to {REFUNDS}, and compare the amount that it was asked for
with the one that it refunded.

{pages}""",
                    console,
                )


def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="a2a-eval-proxy-demo-"))


@asynccontextmanager
async def _running_proxy(folder: Path, **agents: Any) -> AsyncIterator[RunningProxy]:
    ports = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": "off"}
    settings = load(Settings, {**ports, "store": str(folder / STORE), "run": RUN, **agents})
    async with run_proxy(settings) as proxy:
        yield proxy


async def _finished(proxy: RunningProxy, run: str) -> list[Turn]:
    """The turns of a run, scored, in the order of their starts: one that continues a task is stored a little later."""
    await proxy.flush(FLUSH_TIMEOUT_S)
    return sorted(await proxy.turns(run=run), key=lambda turn: str(turn["started_at"]))


async def _write(folder: Path, report: Report, console: Console) -> None:
    store, exported = folder / STORE, folder / "turns.jsonl"
    with exported.open("w", encoding="utf-8") as out:
        await write_turns(str(store), report.run, out)
    page = publish_report(report, folder / "report")
    files = f"Store:  {store}\nExport: {exported} (one turn a line)\nReport: {page} (open it in a browser)"
    console.print(f"\n{files}", soft_wrap=True)


async def _traffic(url: str, suite: Suite, console: Console) -> int:
    """Returns how many tool calls the client received."""
    seen = 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("talking", total=sum(len(case.turns) for case in suite.cases))
        async for case, answer in send_suite(url, suite):
            progress.update(bar, advance=1, description=escape(case.id))
            seen += len(answer.tool_calls)
    return seen


def _summarize(turns: Sequence[Turn], suite: Suite, seen: int, captured: int, console: Console) -> None:
    failed = [turn for turn in turns if not passed(turn)]
    console.print(
        f"An ordinary A2A client had {len(suite.cases)} conversations through the proxy, {len(turns)} turns. It was "
        f"shown {seen} tool calls; the proxy captured {captured} and scored each turn: "
        f"{len(turns) - len(failed)} passed, {len(failed)} failed.\n"
    )
    console.print(turn_table(turns))


def _say_what_failed(why: str, turns: Sequence[Turn], console: Console) -> None:
    failed = [turn for turn in turns if not passed(turn)]
    if failed:
        console.print(f"\n{why} What failed, and why:")
    for turn in failed:
        for result in turn["evaluations"]:
            if not result["passed"]:
                case, reason = escape(str(turn["case_id"])), escape(result["reason"])
                line = f"  [bold]{case}[/bold]  {result['evaluator']} {score_text(result['score'])}: {reason}"
                console.print(line, soft_wrap=True)


async def _stay(to_try: str, console: Console) -> None:
    """Keep everything running until a signal."""
    stopped = stop_signal()
    console.print(
        f"\nStill running; stop it with Ctrl-C. Try, in another terminal:\n\n  {to_try}", markup=False, soft_wrap=True
    )
    await stopped.wait()


def _by_hand(suite: Suite, console: Console) -> None:
    command, python = _programs()
    console.print(
        f"""
The same by hand:

  {python} -m a2a_eval_proxy.demo.agent --port 9999
  {command} serve --upstream http://127.0.0.1:9999 --suite {SUITE}
  {_curl_message("http://127.0.0.1:8080", suite.cases[0])}
  curl -s http://127.0.0.1:8081/api/turns | {python} -m json.tool

Or let the proxy drive the agent, with an exit code for CI:

  {command} run {SUITE} --agent http://127.0.0.1:9999 --report report""",
        markup=False,
        soft_wrap=True,
    )


def _programs() -> tuple[str, str]:
    """How the command and Python are started by hand."""
    if shutil.which("a2a-eval-proxy") is not None:
        return "a2a-eval-proxy", "python"
    python = shlex.quote(sys.executable)  # after `make demo`, which activates nothing
    return f"{python} -m a2a_eval_proxy", python


def _curl_message(url: str, case: Case) -> str:
    """A command that sends the first message of a case over JSON-RPC."""
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": case.turns[0].user}]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    headers = ("Content-Type: application/json", "A2A-Version: 1.0", f"{CASE_HEADER}: {case.id}")
    return " ".join(["curl -s", f"{url}/", *(f"-H '{header}'" for header in headers), f"-d '{json.dumps(request)}'"])
