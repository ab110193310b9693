"""Looking at the world after turns and cases of a run: requests, programs and functions, which do well and do not."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.runs.probes import probed
from agents.serving import ServerThread
from support.commands import run
from support.ports import held_ports
from support.stored_runs import stored_turns
from tool_call_evaluators.suite import parse_suite
from tool_call_evaluators.suite.model import WorldExpectation

ABOUT = {"case_id": "a/b", "context_id": "c 1", "user_text": "Hi", "response_text": "Done"}
BIG = b"x" * 1_000_001
ANSWERS = {
    "/ok": (200, b'{"status": "sent"}'),
    "/text": (200, b"open\n"),
    "/gone": (404, b"<html>"),
    "/error": (503, b""),
    "/login": (401, b""),
    "/moved": (302, b""),
    "/big": (200, BIG),
    "/deep": (200, b"[" * 300 + b"]" * 300),
    "/many": (200, b"[" + b"1," * 499_998 + b"1,1,1]"),
}


async def world(scope: Any, receive: Any, send: Any) -> None:
    """Has `ANSWERS`, never answers `/never`, and says below `/asked` what it was asked."""
    body, path = (await receive()).get("body", b""), scope["raw_path"].decode()
    status, answer = ANSWERS.get(path, (200, b""))
    if path == "/never":
        await asyncio.Event().wait()
    if path.startswith("/asked"):
        token = dict(scope["headers"]).get(b"authorization", b"").decode()
        answer = json.dumps([scope["method"], path, token, body.decode()]).encode()
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": answer})


FUNCTIONS = """
import asyncio, sys

def state(about):
    return {"case": about["case_id"], "said": [about["user_text"], about["response_text"]]}

async def later(about):
    return "42"

def raises(about):
    raise LookupError("no order")

def leaves(about):
    sys.exit("bye")

def no_json(about):
    return {1, 2}

async def hangs(about):
    await asyncio.Event().wait()
"""
TOO_BIG = {"error": "it saw more than 1,000,000 bytes, or too many values"}
TOO_LATE = {"error": "it did not finish within 0.2 s"}
ASKED = {"url": "URL/asked/{case_id}/{context_id}/{other}", "headers": {"Authorization": "Bearer ${WORLD_TOKEN}"}}


def asked(path: str, known: dict[str, Any], timeout: float = 60) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"http": {"url": f"URL{path}"}, "timeout": timeout}, known


def program(body: str, known: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"command": [sys.executable, "-c", f"import json, os, sys\n{body}"]}, known


def function(name: str, known: dict[str, Any], timeout: float = 60) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"python": f"world.py:{name}", "timeout": timeout}, known


@pytest.mark.parametrize(
    ("probe", "known"),
    [
        asked("/ok", {"seen": {"status": "sent"}}),
        asked("/text", {"seen": "open"}),
        asked("/gone", {"seen": None}),
        asked("/error", {"error": "GET URL/error: HTTP 503"}),
        asked("/login?key=s3cret", {"error": "GET URL/login: HTTP 401"}),
        asked("/moved", {"error": "GET URL/moved: HTTP 302"}),
        asked("/big", TOO_BIG),
        asked("/many", TOO_BIG),
        asked("/deep", {"error": "what it saw nests deeper than 200 levels"}),
        asked("/never", TOO_LATE, timeout=0.2),
        (
            {"http": {**ASKED, "body": {"a": 1}}},
            {"seen": ["GET", "/asked/a%2Fb/c%201/%7Bother%7D", "Bearer t", '{"a":1}']},
        ),
        ({"http": {"url": "URL/asked", "method": "POST", "body": "x"}}, {"seen": ["POST", "/asked", "", "x"]}),
        (
            {"http": {"url": "URL", "headers": {"A": "${NOT_SET}"}}},
            {"error": "ConfigurationError: header 'A' needs the environment variable NOT_SET, which is not set"},
        ),
        program("print(json.load(sys.stdin)['case_id'], os.getcwd())", {"seen": "a/b FOLDER"}),
        program("print(json.dumps({'open': True}))", {"seen": {"open": True}}),
        program(
            "print('no database', file=sys.stderr); sys.exit(3)",
            {"error": f"ExternalError: {sys.executable} ended with exit code 3: no database"},
        ),
        function("state", {"seen": {"case": "a/b", "said": ["Hi", "Done"]}}),
        function("later", {"seen": "42"}),
        function("raises", {"error": "LookupError: no order"}),
        function("leaves", {"error": "SystemExit: bye"}),
        function("no_json", {"error": "TypeError: Object of type set is not JSON serializable"}),
        function("hangs", TOO_LATE, timeout=0.2),
    ],
)
async def test_a_probe_sees_the_state_or_fails(
    probe: dict[str, Any], known: dict[str, Any], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_TOKEN", "t")
    (tmp_path / "world.py").write_text(FUNCTIONS)
    expected = expectation({"timeout": 60, **probe}, url, tmp_path)
    assert await probed(expected, ABOUT) == json.loads(
        json.dumps(known).replace("URL", url).replace("FOLDER", str(tmp_path))
    )


async def test_where_nobody_is_nothing_is_seen(tmp_path: Path) -> None:
    with held_ports(1) as (port,):
        found = await probed(expectation({"http": {"url": "URL"}}, f"http://127.0.0.1:{port}", tmp_path), ABOUT)
    assert found["error"].startswith("ConnectError: ")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ServerThread(lambda _: world) as server:
        yield server.url


def expectation(probe: dict[str, Any], url: str, folder: Path) -> WorldExpectation:
    turn = {"user": "hi", "expect": {"state_of_world": {"equals": 1, **probe}}}
    text = json.dumps({"suite": "s", "cases": [{"id": "a", "turns": [turn]}]}).replace("URL", url)
    expected = parse_suite(text, str(folder / "suite.json")).cases[0].turns[0].expect.state_of_world
    assert expected is not None
    return expected


# ── in a run ────────────────────────────────────────────────────────────────────────────────────────────────

SHOP = """
from pathlib import Path

ORDERS = Path(__file__).with_name("orders")


class Agent:
    async def execute(self, user_query, **kwargs):
        verb, order = user_query.split()
        if verb == "Refund":
            (ORDERS / order).write_text("refunded")
        return f"{order} is refunded."


def order(about):
    return (ORDERS / about["user_text"].split()[1]).read_text()
"""
SUITE = """
suite: desk
agent: {{url: "python:shop.py:Agent"}}
evaluators: [state_of_world, {{state_of_world: {{id: whole, scope: conversation, matcher: subset}}}}]
cases:
  - id: right
    turns:
      - {{user: Refund ORD-1, expect: {{state_of_world: {{python: "shop.py:order", equals: {equals}}}}}}}
      - {{user: Thank ORD-1}}
    expect: {{state_of_world: {{command: [ls, orders], equals: {{$regex: "(?s).*ORD-1.*"}}}}}}
  - id: wrong
    turns:
      - {{user: Check ORD-2, expect: {{state_of_world: {{python: "shop.py:order", equals: {equals}}}}}}}
  - id: unknown
    turns:
      - {{user: Check ORD-3, expect: {{state_of_world: {{python: "shop.py:order", equals: {equals}}}}}}}
"""


async def test_an_agent_that_only_says_so_fails_and_a_probe_that_fails_is_not_its_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("orders").mkdir()
    for number in (1, 2):
        Path(f"orders/ORD-{number}").write_text("open")
    Path("shop.py").write_text(SHOP)
    Path("suite.yaml").write_text(SUITE.format(equals="refunded"))
    ran = await asyncio.to_thread(run, "run", "suite.yaml", "--run", "one", "--report", "report")
    assert ran.returncode == 1, ran.stdout
    report = json.loads(Path("report/report.json").read_text())
    found = {one["case_id"]: one for one in report["conversations"]}
    assert {case: (one["status"], one["excluded"]) for case, one in found.items()} == {
        "right": ("passed", None),
        "wrong": ("failed", None),
        "unknown": ("unscored", "evaluator_error"),
    }
    told = {case: one["turns"][0]["results"][0]["reason"] for case, one in found.items()}
    assert told["wrong"] == 'The world is not as expected: world: expected "refunded", got "open".'
    assert told["unknown"].startswith("ProbeError: FileNotFoundError: ")
    assert "state of the world" in Path("report/report.html").read_text()
    turns = await stored_turns("a2a-eval-proxy.db", case="right")
    assert [turn.get("world") for turn in turns] == [
        {"turn": {"seen": "refunded"}},
        {"case": {"seen": "ORD-1\nORD-2"}},
    ]
    Path("orders/ORD-1").unlink()  # what was seen is kept
    Path("suite.yaml").write_text(SUITE.format(equals="{$one_of: [open, refunded]}"))
    await asyncio.to_thread(run, "evaluate", "--run", "one", "--suite", "suite.yaml", "--report", "report")
    again = json.loads(Path("report/report.json").read_text())
    assert [one["status"] for one in again["conversations"]] == ["passed", "passed", "unscored"]
