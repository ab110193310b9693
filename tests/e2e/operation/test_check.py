"""`check` as its users run it: agents of both SDK generations, the proxy between, both forms of report, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.features.check.rules import CheckVerdict, RuleStatus
from agents.faulty_agent import Fault, faulty, faulty_app
from agents.serving import ServerThread
from e2e.contracts import GetAgent, GetProxy
from support.checking import check, rules_with
from support.prefork import run


@pytest.mark.installs
async def test_an_agent_of_the_0_3_sdk(agent: GetAgent) -> None:
    """Its results are structured, which is what the warning says."""
    report = await check(agent("v0.3-gated-reads"), "chunks-repeat please")

    spoken = {str(item.interface) for item in report.record.conversations}
    assert spoken == {"JSONRPC 0.3", "HTTP+JSON 0.3", "GRPC 0.3"}
    assert rules_with(report, RuleStatus.FAILED) == set()
    assert rules_with(report, RuleStatus.WARNING) == {"entry-texts"}
    assert report.verdict is CheckVerdict.CONFORMING


READ_LATER = {"get-silent", "list-silent", "subscribe-silent"}
"""The proxy remembers who asked for a task, where an agent may treat each request alone."""


@pytest.mark.parametrize("message", ["Got a kettle?", "ask me"])
async def test_what_passes_directly_passes_through_the_proxy(message: str, proxy_of: GetProxy) -> None:
    with ServerThread(lambda url: faulty_app(url, Fault())) as agent:
        report = await check(proxy_of(agent.url).url, message)

    assert rules_with(report, RuleStatus.FAILED) | rules_with(report, RuleStatus.WARNING) <= READ_LATER
    assert rules_with(report, RuleStatus.UNSEEN) <= (
        set() if message == "ask me" else {"subscribe-asked", "subscribe-silent"}
    )
    assert len(report.record.conversations) == 4


def test_a_fault_with_its_evidence_and_its_fix(tmp_path: Path) -> None:
    with ServerThread(faulty("reports in streams")) as agent:
        done = run("check", agent.url, "--message", "Any cups?", COLUMNS="200")
        file = tmp_path / "report.json"
        whole = run("check", agent.url, "--message", "Any cups?", "--format", "json", "--out", file)
    assert done.returncode == 1
    shown = done.stdout[done.stdout.index("FAILED stream-silent") :]
    assert "on JSONRPC 1.0, HTTP+JSON 1.0, JSONRPC 0.3, HTTP+JSON 0.3" in shown
    assert '"method":"SendStreamingMessage"' in shown
    assert '"name": "search"' in shown
    assert shown.endswith("\nnot conforming (1 rule broken)\n")
    report = json.loads(file.read_text())
    assert (whole.returncode, whole.stdout) == (1, "")
    assert (report["verdict"], report["messages"]) == ("not conforming", ["Any cups?"])
    failed = [result for result in report["results"] if result["status"] == "failed"]
    assert {result["rule"] for result in failed} == {"stream-silent"}
    problem: dict[str, Any] = failed[0]["problems"][0]
    assert json.loads(problem["request"]["body"])["method"] == "SendStreamingMessage"
    assert problem["excerpt"][0]["name"] == "search"


def test_headers_go_with_every_request_and_are_never_shown() -> None:
    def guarded(url: str) -> Any:
        app = faulty_app(url, Fault(warns={"get-silent"}, believes=lambda operation, asked: [*asked, "x"]))

        async def wrapped(scope: Any, receive: Any, send: Any) -> None:
            if (b"authorization", b"Bearer s3cret") in scope["headers"]:
                await app(scope, receive, send)
                return
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        return wrapped

    with ServerThread(guarded) as agent:
        refused = run("check", agent.url)
        header = ("--header", "Authorization: Bearer ${TOKEN}")
        done = run("check", agent.url, *header, "--format", "json", TOKEN="s3cret")

    assert refused.returncode == 3
    assert "credentials are missing or not accepted: give them with --header" in refused.stderr
    assert (done.returncode, done.stderr) == (0, "")
    assert "s3cret" not in done.stdout
