"""Each agent asks judges within its own budget; what it leaves out is seen, and `evaluate` scores it later."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.runs.rescore import evaluate_store
from a2a_eval_proxy.settings.options import load
from a2a_eval_proxy.settings.settings import Settings
from agents.serving import ServerThread
from agents.stepwise_agent import RPC_PATH, stepwise_agent
from judges.fake_api import KEY, MODEL, FakeApi, fit
from support.patience import PATIENCE_S
from tool_call_evaluators import load_suite

SUITE = """
suite: judged
judge: {{base_url: {url}/v1, model: {model}}}
evaluators: [tool_error, {{helpfulness: {{threshold: 1}}}}]
"""


async def say(proxy: RunningProxy, http: httpx.AsyncClient, name: str, text: str, run: str) -> None:
    params = {"message": {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    headers = {"a2a-version": "1.0", "a2a-eval-run": run}
    answer = await http.post(f"{proxy.url}/agents/{name}{RPC_PATH}", json=body, headers=headers)
    assert "result" in answer.json()


async def test_the_budget_of_an_agent_touches_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A case that is scored again asks nothing that was answered."""
    monkeypatch.setenv("A2A_EVAL_PROXY_JUDGE_API_KEY", KEY)
    api, store = FakeApi(fit), str(tmp_path / "turns.db")
    with stepwise_agent() as agent, ServerThread(api.app) as judge:
        (tmp_path / "suite.yaml").write_text(SUITE.format(url=judge.url, model=MODEL))
        suite = load_suite(tmp_path / "suite.yaml")

        agents = {"orders": {"upstream": agent.url, "judge_budget": "2/d"}, "refunds": agent.url}
        ports = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": False, "store": store}
        given = {**ports, "agents": agents, "suite": str(tmp_path / "suite.yaml"), "judge_budget": "9/d"}
        async with run_proxy(load(Settings, given)) as proxy, httpx.AsyncClient(timeout=PATIENCE_S) as http:
            for number in range(4):
                await say(proxy, http, "orders", f"done {number}", "of-orders")
                await proxy.flush(PATIENCE_S)
            for number in range(3):
                await say(proxy, http, "refunds", f"done again {number}", "of-refunds")
            await proxy.flush(PATIENCE_S)
            turns = {name: await proxy.turns(f"of-{name}") for name in ("orders", "refunds")}
            metrics = (await http.get(f"{proxy.admin_url}/metrics")).text
            runs = {name: (await http.get(f"{proxy.admin_url}/api/runs/of-{name}")).json() for name in turns}
            page = (await http.get(f"{proxy.admin_url}/runs/of-orders?wait=1")).text
        assert len(api.requests) == 5
        again = await evaluate_store(suite, store, "of-orders")
        assert len(api.requests) == 7, "what was answered is cached"
    labels = {name: [turn["evaluations"][1]["label"] for turn in found] for name, found in turns.items()}
    assert labels == {"orders": [None, None, "over_budget", "over_budget"], "refunds": [None] * 3}
    (said,) = (record.message for record in caplog.records if "judge budget" in record.message)
    assert said.startswith("agent orders: the judge budget of 2/d is spent")
    for line in (
        'agent_judge_skips_total{agent="orders"} 2.0',
        'agent_judge_skips_total{agent="refunds"} 0.0',
        'agent_judge_requests_total{agent="orders"} 2.0',
        "judge_requests_total 5.0",
        "judge_skips_total 2.0",
    ):
        assert f"a2a_eval_proxy_{line}" in metrics
    verdicts = [(runs[name]["verdict"]["passed"], runs[name]["verdict"]["tolerated_count"]) for name in turns]
    assert verdicts == [(True, 1), (True, 0)]
    assert "helpfulness: 2 of 4 results skipped, as the judge budget was spent" in page
    assert (again.verdict.passed, again.verdict.tolerated, again.report.counts["passed"]) == (True, (), 4)
