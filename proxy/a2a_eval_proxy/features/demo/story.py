"""`demo`: a sample agent, the proxy in front, the traffic of an ordinary client and the results, in one process."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
from a2a.client import Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.helpers import new_text_message
from a2a.types import Role, SendMessageRequest
from a2a_tool_capture import TaskMerger
from a2a_tool_capture.wire import INTERRUPTED_STATES
from google.protobuf.json_format import MessageToDict
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from tool_call_evaluators.report import Report
from tool_call_evaluators.suite import Case, Suite, load_suite
from tool_call_evaluators.texts import score_text

from ...app import run_proxy
from ...runs.run_plan import publish_report
from ...runs.run_result import judge_turns
from ...runs.stored_turns import write_turns
from ...runs.tables import passed, turn_table
from ...settings import Settings
from ...settings.options import load
from ...signals import stop_signal
from .agent import run_agent

CASE_HEADER = "A2A-Eval-Case"


async def send_suite(url: str, suite: Suite) -> AsyncIterator[tuple[Case, TaskMerger]]:
    """Hold every conversation of `suite` with the agent behind `url`; yields the case and the answer of each turn.

    Raises the SDK's A2AError if the agent cannot be reached.
    """
    async with httpx.AsyncClient(timeout=httpx.Timeout(60.0), trust_env=False) as http:
        client = await ClientFactory(ClientConfig(httpx_client=http)).create_from_url(url)
        for case in suite.cases:
            context_id = task_id = None
            for turn in case.turns:
                answer = await send(client, turn.user, {CASE_HEADER: case.id}, context_id, task_id)
                context_id = answer.context_id
                task_id = answer.task_id if answer.state in INTERRUPTED_STATES else None
                yield case, answer


async def send(
    client: Client, text: str, headers: Mapping[str, str], context_id: str | None = None, task_id: str | None = None
) -> TaskMerger:
    message = new_text_message(text, context_id=context_id, task_id=task_id, role=Role.ROLE_USER)
    context = ClientCallContext(service_parameters=dict(headers))
    answer = TaskMerger()
    async for event in client.send_message(SendMessageRequest(message=message), context=context):
        answer.feed(MessageToDict(event))
    return answer


SUITE = Path(__file__).with_name("suite.yaml")
RUN = "demo"
STORE = "turns.db"
FLUSH_TIMEOUT_S = 30.0

Turn = Mapping[str, Any]


async def tell(keep: bool, *, console: Console) -> None:
    """Run the demo and print it; `keep` leaves agent and proxy running until SIGINT or SIGTERM.

    Failing cases are intended. Store, export and report stay in a new temporary folder. Raises ListenError if no port
    is free.
    """
    suite, folder = load_suite(SUITE), Path(tempfile.mkdtemp(prefix="a2a-eval-proxy-demo-"))
    own = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": "off", "store": str(folder / STORE), "run": RUN}
    async with (
        run_agent(folder / "shop.db") as agent_url,
        run_proxy(load(Settings, {**own, "upstream": agent_url, "suite": str(SUITE)})) as proxy,
    ):
        console.print(f"Sample agent: {agent_url}   proxy: {proxy.url}", soft_wrap=True)
        seen = await _traffic(proxy.url, suite, console)
        await proxy.flush(FLUSH_TIMEOUT_S)
        # In the order of their starts: one that continues a task is stored a little later.
        turns = sorted(await proxy.turns(run=RUN), key=lambda turn: str(turn["started_at"]))
        _summarize(turns, suite, seen, console)
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


def _summarize(turns: Sequence[Turn], suite: Suite, seen: int, console: Console) -> None:
    captured = sum(len(turn["tool_calls"]) for turn in turns)
    failed = [turn for turn in turns if not passed(turn)]
    console.print(
        f"An ordinary A2A client had {len(suite.cases)} conversations through the proxy, {len(turns)} turns. It was "
        f"shown {seen} tool calls; the proxy captured {captured} and scored each turn: "
        f"{len(turns) - len(failed)} passed, {len(failed)} failed.\n"
    )
    console.print(turn_table(turns))
    if failed:
        console.print(
            "\nThe agent has weaknesses on purpose; finding them is what the evaluators are for. What failed, and why:"
        )
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

  {python} -m a2a_eval_proxy.features.demo.agent --port 9999
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
