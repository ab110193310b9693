"""`demo`: a sample agent, the proxy in front, the traffic of an ordinary client and the results, in one process."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
from a2a_tool_capture import TaskMerger
from a2a_tool_capture.wire import INTERRUPTED_STATES
from rich.console import Console
from tool_call_evaluators.suite import Case, Suite, load_suite
from tool_call_evaluators.texts import score_text

from ...app import run_proxy
from ...runs.run_plan import publish_report
from ...runs.run_result import judge_turns
from ...runs.stored_turns import write_turns
from ...runs.tables import passed, turn_table
from ...settings.options import load
from ...settings.settings import Settings
from ...signals import stop_signal
from .agent import run_agent

CASE_HEADER = "A2A-Eval-Case"


async def send_suite(url: str, suite: Suite) -> AsyncIterator[tuple[Case, TaskMerger]]:
    """Hold every conversation of `suite` with the agent behind `url`; yields the case and the answer of each turn.

    Raises httpx.HTTPError if the agent cannot be reached.
    """
    async with httpx.AsyncClient(timeout=httpx.Timeout(60.0), trust_env=False) as http:
        for case in suite.cases:
            answer = TaskMerger()
            for turn in case.turns:
                task_id = answer.task_id if answer.state in INTERRUPTED_STATES else None
                place = {"contextId": answer.context_id, "taskId": task_id}
                known = {name: value for name, value in place.items() if value}
                answer = await send(http, url, turn.user, {CASE_HEADER: case.id}, **known)
                yield case, answer


async def send(http: httpx.AsyncClient, url: str, text: str, headers: Mapping[str, str], **place: str) -> TaskMerger:
    """The answer to a message; `place`: its `contextId` and `taskId`."""
    response = await http.post(f"{url}/", json=_request(text, **place), headers={**_HEADERS, **headers})
    answer = TaskMerger()
    answer.feed(response.json()["result"])
    return answer


_HEADERS = {"Content-Type": "application/json", "A2A-Version": "1.0"}


def _request(text: str, **place: str) -> dict[str, Any]:
    """A message over JSON-RPC."""
    message = {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}], **place}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}


SUITE = Path(__file__).with_name("suite.yaml")
RUN = "demo"
STORE = "turns.db"
FLUSH_TIMEOUT_S = 30.0


async def tell(keep: bool, *, console: Console) -> None:
    """Run the demo and print it; `keep` leaves agent and proxy running until SIGINT or SIGTERM.

    Failing cases are intended. Store, export and report stay in a new temporary folder. Raises ListenError if no port
    is free.
    """

    def say(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    suite, folder = load_suite(SUITE), Path(tempfile.mkdtemp(prefix="a2a-eval-proxy-demo-"))
    store, exported = folder / STORE, folder / "turns.jsonl"
    own = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": "off", "store": str(store), "run": RUN}
    async with (
        run_agent() as agent_url,
        run_proxy(load(Settings, {**own, "upstream": agent_url, "suite": str(SUITE)})) as proxy,
    ):
        say(f"Sample agent: {agent_url}   proxy: {proxy.url}")
        seen = sum([len(answer.tool_calls) async for _, answer in send_suite(proxy.url, suite)])
        await proxy.flush(FLUSH_TIMEOUT_S)
        # In the order of their starts: one that continues a task is stored a little later.
        turns = sorted(await proxy.turns(run=RUN), key=lambda turn: str(turn["started_at"]))
        captured, failed = sum(len(turn["tool_calls"]) for turn in turns), [turn for turn in turns if not passed(turn)]
        say(
            f"An ordinary A2A client had {len(suite.cases)} conversations through the proxy, {len(turns)} turns. It "
            f"was shown {seen} tool calls; the proxy captured {captured} and scored each turn: "
            f"{len(turns) - len(failed)} passed, {len(failed)} failed.\n"
        )
        report = judge_turns(suite, turns, {}, RUN).report
        console.print(turn_table(report))
        say("\nThe agent has weaknesses on purpose; finding them is what the evaluators are for. What failed, and why:")
        for turn in failed:
            for result in turn["evaluations"]:
                if not result["passed"]:
                    score = score_text(result["score"])
                    say(f"  {turn['case_id']}  {result['evaluator']} {score}: {result['reason']}")
        if not keep:
            say(_by_hand(suite))
        with exported.open("w", encoding="utf-8") as out:
            await write_turns(str(store), RUN, out)
        page = publish_report(report, folder / "report")
        say(f"\nStore:  {store}\nExport: {exported} (one turn a line)\nReport: {page} (open it in a browser)")
        if keep:
            stopped = stop_signal()
            say(f"""
Still running; stop it with Ctrl-C. Try, in another terminal:

  curl -s {proxy.url}/.well-known/agent-card.json
  {_curl_message(proxy.url, suite.cases[0])}
  curl -s '{proxy.admin_url}/api/turns?run={RUN}&limit=1'""")
            await stopped.wait()


def _by_hand(suite: Suite) -> str:
    command, python = "a2a-eval-proxy", "python"
    if shutil.which(command) is None:
        python = shlex.quote(sys.executable)  # after `make demo`, which activates nothing
        command = f"{python} -m a2a_eval_proxy"
    return f"""
The same by hand:

  {python} -m a2a_eval_proxy.features.demo.agent --port 9999
  {command} serve --upstream http://127.0.0.1:9999 --suite {SUITE}
  {_curl_message("http://127.0.0.1:8080", suite.cases[0])}
  curl -s http://127.0.0.1:8081/api/turns | {python} -m json.tool

Or let the proxy drive the agent, with an exit code for CI:

  {command} run {SUITE} --agent http://127.0.0.1:9999 --report report"""


def _curl_message(url: str, case: Case) -> str:
    """A command that sends the first message of a case over JSON-RPC."""
    headers = " ".join(f"-H '{name}: {value}'" for name, value in {**_HEADERS, CASE_HEADER: case.id}.items())
    return f"curl -s {url}/ {headers} -d '{json.dumps(_request(case.turns[0].user))}'"
