"""Looking at the world after turns and cases of a run: requests, programs and functions, which do well and do not."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.runs.probes import probed
from agents.serving import ServerThread
from support.commands import run
from support.ports import held_ports
from support.stored_runs import stored_turns
from tool_call_evaluators.suite import parse_suite

ABOUT = {"case_id": "a/b", "context_id": "c 1", "user_text": "Hi", "response_text": "Done"}
ANSWERS = {
    "/ok": (200, b'{"status": "sent"}'),
    "/text": (200, b"open\n"),
    "/gone": (404, b"<html>"),
    "/error": (503, b""),
    "/login": (401, b""),
    "/moved": (302, b""),
    "/big": (200, b"x" * 1_000_001),
    "/many": (200, b"[" + b"1," * 499_998 + b"1,1,1]"),
}


async def world(scope: Any, receive: Any, send: Any) -> None:
    """Has `ANSWERS`; elsewhere it says what it was asked."""
    body, path = (await receive())["body"], scope["raw_path"].decode()
    token = dict(scope["headers"]).get(b"authorization", b"").decode()
    asked = json.dumps([scope["method"], path, token, body.decode()]).encode()
    status, answer = ANSWERS.get(path, (200, asked))
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
ASKED = {"url": "URL/{case_id}/{context_id}/{other}", "headers": {"Authorization": "Bearer ${WORLD_TOKEN}"}}
PROGRAM = [sys.executable, "-c", "import json, os, sys; print(json.load(sys.stdin)['case_id'], os.getcwd())"]
FAILS = [sys.executable, "-c", "import sys; print('no database', file=sys.stderr); sys.exit(3)"]


@pytest.mark.parametrize(
    ("probe", "known"),
    [
        ({"http": {"url": "URL/ok"}}, {"seen": {"status": "sent"}}),
        ({"http": {"url": "URL/text"}}, {"seen": "open"}),
        ({"http": {"url": "URL/gone"}}, {"seen": None}),
        ({"http": {"url": "URL/error"}}, {"error": "GET URL/error: HTTP 503"}),
        ({"http": {"url": "URL/login?key=s3cret"}}, {"error": "GET URL/login: HTTP 401"}),
        ({"http": {"url": "URL/moved"}}, {"error": "GET URL/moved: HTTP 302"}),
        ({"http": {"url": "URL/big"}}, TOO_BIG),
        ({"http": {"url": "URL/many"}}, TOO_BIG),
        ({"http": {"url": "NOBODY"}}, {"error": "GET NOBODY: ConnectError: All connection attempts failed"}),
        ({"http": {**ASKED, "body": {"a": 1}}}, {"seen": ["GET", "/a%2Fb/c%201/%7Bother%7D", "Bearer t", '{"a":1}']}),
        ({"http": {"url": "URL/a", "method": "POST", "body": "x"}}, {"seen": ["POST", "/a", "", "x"]}),
        (
            {"http": {"url": "URL", "headers": {"A": "${NOT_SET}"}}},
            {"error": "ConfigurationError: header 'A' needs the environment variable NOT_SET, which is not set"},
        ),
        ({"command": PROGRAM}, {"seen": "a/b FOLDER"}),
        ({"command": ["echo", '{"open": true}']}, {"seen": {"open": True}}),
        ({"command": FAILS}, {"error": f"ExternalError: {sys.executable} ended with exit code 3: no database"}),
        ({"python": "world.py:state"}, {"seen": {"case": "a/b", "said": ["Hi", "Done"]}}),
        ({"python": "world.py:later"}, {"seen": "42"}),
        ({"python": "world.py:raises"}, {"error": "LookupError: no order"}),
        ({"python": "world.py:leaves"}, {"error": "SystemExit: bye"}),
        ({"python": "world.py:no_json"}, {"error": "TypeError: Object of type set is not JSON serializable"}),
        ({"python": "world.py:hangs", "timeout": 0.2}, {"error": "it did not finish within 0.2 s"}),
    ],
)
async def test_a_probe_sees_the_state_or_fails(
    probe: dict[str, Any], known: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_TOKEN", "t")
    (tmp_path / "world.py").write_text(FUNCTIONS)
    turn = {"user": "hi", "expect": {"state_of_world": {"equals": 1, "timeout": 60, **probe}}}
    given = json.dumps([{"suite": "s", "cases": [{"id": "a", "turns": [turn]}]}, known])
    with ServerThread(lambda _: world) as server, held_ports(1) as (port,):
        for name, value in (("URL", server.url), ("NOBODY", f"http://127.0.0.1:{port}"), ("FOLDER", str(tmp_path))):
            given = given.replace(name, value)
        suite, known = json.loads(given)
        expect = parse_suite(json.dumps(suite), str(tmp_path / "suite.json")).cases[0].turns[0].expect
        assert expect.state_of_world is not None
        assert await probed(expect.state_of_world, ABOUT) == known


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
