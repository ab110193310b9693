"""`demo`: a sample agent, the proxy in front, the traffic of an ordinary client and the results, in one process."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx
from a2a.client import Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.helpers import new_text_message
from a2a.types import Role, SendMessageRequest
from a2a_tool_capture import TaskMerger
from a2a_tool_capture.wire import INTERRUPTED_STATES
from google.protobuf.json_format import MessageToDict
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
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": case.turns[0].user}]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    headers = ("Content-Type: application/json", "A2A-Version: 1.0", f"{CASE_HEADER}: {case.id}")
    return " ".join(["curl -s", f"{url}/", *(f"-H '{header}'" for header in headers), f"-d '{json.dumps(request)}'"])
