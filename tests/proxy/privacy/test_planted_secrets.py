"""No planted secret leaves capture: not into the store's bytes, events, telemetry, reports or what judges are asked."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from a2a_eval_proxy.capture.captured_exchange import major_minor
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.ids import new_turn_id
from a2a_eval_proxy.privacy.detectors import DETECTORS
from a2a_eval_proxy.privacy.policy import NO_PRIVACY, Privacy, privacy_of
from a2a_eval_proxy.privacy.redactor import lacks_content, parse_rules
from a2a_eval_proxy.runs.run_plan import publish_report
from a2a_eval_proxy.runs.run_result import load_and_judge_run
from a2a_eval_proxy.runs.stored_turns import write_turns
from a2a_eval_proxy.scoring.case_book import CaseBook, RegisteredCase
from a2a_eval_proxy.scoring.pipeline import Pipeline
from a2a_eval_proxy.scoring.scorer import Scorer
from a2a_eval_proxy.store import SqliteStore, TurnQuery
from a2a_eval_proxy.telemetry.counters import Metrics
from a2a_eval_proxy.telemetry.event_bus import EventBus, Listener
from a2a_eval_proxy.telemetry.provider import EvaluationTelemetry
from a2a_eval_proxy.telemetry.turn_events import TurnEvents
from a2a_eval_proxy.telemetry.turn_listener import TurnListener
from a2a_eval_proxy.turn import CaptureFacts, Turn
from a2a_tool_capture import METADATA_KEY, URI, ToolCall
from a2a_tool_capture.wire import normalize_state
from agents.serving import ServerThread
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from judges.fake_api import KEY, MODEL, FakeApi
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from support.folded import Folded
from support.kept import turn as kept_turn
from support.live import heard
from support.read_exchange import ReadExchange
from tool_call_evaluators.suite import Suite, parse_case, parse_suite

EVERY = "token,email,iban,card,phone,ip"

SECRETS = (
    "ann.lee@example.com",
    "+49 30 1234567",
    "4111 1111 1111 1111",
    "378282246310005",
    "DE89 3704 0044 0532 0130 00",
    "203.0.113.77",
    "2001:db8::7334",
    "sk-live0123456789abcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl",
)


def marks(secret: str) -> set[str]:
    """What shows that a secret is there, in the encodings in which it may stand."""
    spelled = {secret, secret.replace(" ", ""), quote(secret), quote(secret, safe="")}
    return spelled | {secret.replace("@", "\\u0040"), json.dumps(secret)[1:-1]}


WRAPPINGS = {
    "plain": lambda secret: secret,
    "prose": lambda secret: f"it is {secret}, as you know",
    "json": lambda secret: json.dumps({"value": secret}),
    "escaped": lambda secret: '{"value": "' + "".join(f"\\u{ord(char):04x}" for char in secret) + '"}',
    "json in json": lambda secret: json.dumps([json.dumps({"v": [json.dumps(secret)]})]),
    "prose around json": lambda secret: f"Result: {json.dumps({'a': secret})}",
    "url": lambda secret: f"https://host.test/?q={quote(secret, safe='')}&x=1",
    "lines": lambda secret: f"first\n{secret}\nlast",
}

PLACES = (
    *("user text", "context id", "task id", "message", "artifact text", "call id", "call name", "argument"),
    *("nested argument", "argument key", "result", "result object", "error", "artifact id"),
    *("agent error", "run", "case", "version"),
)


NAMES = ("context id", "task id", "call id", "call name", "artifact id", "run", "case", "version")
SAID = tuple(place for place in PLACES if place not in NAMES)


class Exchanged:
    """A request and its answers, with something planted in a place."""

    def __init__(self, place: str, planted: str) -> None:
        self.place = place
        self.planted = planted

    def at(self, place: str, otherwise: Any) -> Any:
        return self.planted if place == self.place else otherwise

    @property
    def turn(self) -> Turn:
        return Turn(
            new_turn_id(),
            self.at("run", "nightly"),
            "http://agent",
            "",
            major_minor(self.at("version", "1.0")),
            started_at=1.0,
            case_id=self.at("case", None),
            trace_id="1" * 32,
            parent_span_id="2" * 16,
            capture=CaptureFacts(declared=True),
        )

    @property
    def request(self) -> bytes:
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": self.at("user text", "hello")}]}
        if self.place == "context id":
            message["contextId"] = self.planted
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}).encode()

    @property
    def answer(self) -> bytes:
        if self.place == "agent error":
            error = {"code": -32000, "message": self.planted}
            return json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode()
        call: dict[str, Any] = {
            "id": self.at("call id", "call-1"),
            "name": self.at("call name", "lookup"),
            "arguments": {"a": self.at("argument", "x"), "b": [{"c": self.at("nested argument", 1)}]},
            "result": self.at("result", "fine"),
            "error": self.at("error", None),
        }
        if self.place == "argument key":
            call["arguments"][self.planted] = 1
        if self.place == "result object":
            call["result"] = {"rows": [{"owner": self.planted}]}
        artifact = {
            "artifactId": self.at("artifact id", "answer"),
            "parts": [] if self.place == "message" else [{"text": self.at("artifact text", "done")}],
            "extensions": [URI],
            "metadata": {METADATA_KEY: [call, "junk", {"name": 7}]},
        }
        task = {
            "id": self.at("task id", "task-1"),
            "contextId": self.at("context id", "context-1"),
            "status": {"state": "TASK_STATE_COMPLETED", "message": {"parts": [{"text": self.at("message", "ok")}]}},
            "artifacts": [artifact],
        }
        return json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": task}}).encode()

    @property
    def closed(self) -> list[Turn]:
        folded = Folded()
        exchange = ReadExchange(folded.book, self.turn)
        exchange.request(None, self.request, 1.0)
        exchange.answer(200, self.answer, 2.0)
        exchange.end(3.0)
        folded.now = 3.0 + folded.rules.timeout_s + 1
        folded.book.expire(folded.now)
        return folded.closed


class Running:
    """A pipeline with its store, and everything else that it gave out."""

    def __init__(self, folder: Path, suite: Suite | None, privacy: Privacy) -> None:
        self.folder, self.suite, self.privacy = folder, suite, privacy
        self.path = folder / "turns.db"
        self.cases = CaseBook(suite, privacy=privacy)
        self.store = SqliteStore(str(self.path))
        self.scorer = Scorer(self.cases, suite, privacy.judge_cache(self.store.judge_cache))
        self.bus, self.metrics = EventBus(), Metrics()
        self.exported = InMemoryLogRecordExporter()
        provider = LoggerProvider(shutdown_on_exit=False)
        provider.add_log_record_processor(SimpleLogRecordProcessor(self.exported))
        telemetry = EvaluationTelemetry(provider.get_logger("test"))
        listeners = TurnListener(TurnEvents(self.bus), telemetry)
        self.pipeline = Pipeline(self.store, self.cases, self.scorer, listeners, self.metrics, privacy=privacy)

    async def take(self, *turns: Turn) -> list[dict[str, Any]]:
        """All turns that are stored when these are scored."""
        for one in turns:
            self.pipeline.take(one)
        await self.pipeline.drained()
        return (await self.store.turns(TurnQuery(limit=1000))).items

    async def told(self, events: Listener) -> str:
        """All that came out of the proxy: events, telemetry, reports, export, the bytes of its files."""
        out = [repr(self.metrics)]
        out += [f"{event.name} {json.dumps(event.data)}" for event in heard(events)]
        out += [json.dumps(dict(item.log_record.attributes or {})) for item in self.exported.get_finished_logs()]
        expected = self.privacy.suite(self.suite or Suite(name="none"))
        conclusion = await load_and_judge_run(self.store, self.scorer, [expected], None)
        publish_report(conclusion.report, self.folder / "report", {})
        lines = io.StringIO()
        await write_turns(str(self.path), None, lines)
        out.append(lines.getvalue())
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        assert {"turns.db", "turns.db-wal", "report.html"} <= {path.name for path in files}
        assert {path.stat().st_mode & 0o777 for path in files if path.name.startswith("turns.db")} == {0o600}
        return "\n".join([*out, *(path.read_bytes().decode("utf-8", "replace") for path in files)])


@asynccontextmanager
async def running(
    suite: Suite | None = None, privacy: Privacy = NO_PRIVACY, folder: Path | None = None
) -> AsyncIterator[Running]:
    with tempfile.TemporaryDirectory() as temporary:
        it = Running(folder or Path(temporary), suite, privacy)
        try:
            yield it
        finally:
            await it.pipeline.close()
            await asyncio.to_thread(it.store.close)


async def scored(suite: Suite | None, privacy: Privacy, *turns: Turn) -> list[dict[str, Any]]:
    async with running(suite, privacy) as it:
        return await it.take(*turns)


async def told_of(place: str, planted: str, suite: Suite | None, privacy: Privacy) -> tuple[list[dict[str, Any]], str]:
    """The turns that are stored, and all that came out of the proxy."""
    async with running(suite, privacy) as it:
        with it.bus.listen() as events:
            turns = await it.take(*Exchanged(place, planted).closed)
            return turns, await it.told(events)


def judged_suite(url: str, **more: Any) -> Suite:
    return parse_suite(
        json.dumps(
            {
                "suite": "judged",
                "judge": {"base_url": f"{url}/v1", "model": MODEL},
                "evaluators": [
                    "tool_error",
                    {"helpfulness": {"threshold": None}},
                    {"goal_completion": {"threshold": None}},
                ],
                "cases": [{"id": "case", "turns": [{"user": "hello"}], "user_goal": "be greeted"}],
                **more,
            }
        )
    )


@pytest.fixture(scope="module")
def judge() -> Iterator[tuple[FakeApi, str]]:
    api = FakeApi()
    with ServerThread(api.app) as server:
        yield api, server.url


def privacy(rules: Any, key: str | None = "key", **options: Any) -> Privacy:
    return privacy_of(parse_rules(rules) if rules else (), key, **options)


# ── nothing gets out ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    secret=st.sampled_from(SECRETS),
    wrapping=st.sampled_from(sorted(WRAPPINGS)),
    place=st.sampled_from(PLACES),
    action=st.sampled_from(["mask", "hash"]),
    no_content=st.booleans(),
)
def test_no_secret_gets_out(
    judge: tuple[FakeApi, str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    secret: str,
    wrapping: str,
    place: str,
    action: str,
    no_content: bool,
) -> None:
    api, url = judge
    api.requests.clear()
    caplog.clear()
    monkeypatch.setenv("A2A_EVAL_PROXY_JUDGE_API_KEY", KEY)
    rules = [{"detector": name, "action": action} for name in EVERY.split(",")]

    by = privacy(rules, no_content=no_content)
    with caplog.at_level(logging.DEBUG, "a2a_eval_proxy"):
        _, out = asyncio.run(told_of(place, WRAPPINGS[wrapping](secret), judged_suite(url), by))
        told = "\n".join([out, json.dumps(api.requests), caplog.text])
    if place not in ("case", "agent error"):
        assert api.requests  # lest nothing was judged
    for mark in marks(secret):
        assert mark not in told, (mark, told[max(0, told.index(mark) - 200) :][:400])


@pytest.mark.parametrize("place", [place for place in PLACES if place != "version"])
async def test_without_rules_it_would_get_out(
    place: str, judge: tuple[FakeApi, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above would also pass if nothing were planted."""
    monkeypatch.setenv("A2A_EVAL_PROXY_JUDGE_API_KEY", KEY)

    _, told = await told_of(place, SECRETS[0], judged_suite(judge[1]), NO_PRIVACY)
    assert SECRETS[0] in told


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        ("TASK_STATE_COMPLETED", "TASK_STATE_COMPLETED"),
        ("TASK_STATE_WORKING", "TASK_STATE_WORKING"),
        (None, None),
        (normalize_state("ann-lee@example.com"), "[redacted]"),
    ],
)
@pytest.mark.parametrize("no_content", [False, True])
async def test_a_state_that_a2a_does_not_have_may_be_anything(
    no_content: bool, state: str | None, kept: str | None
) -> None:
    """And it is read in capitals, with its hyphens gone, so that rules may not know it again."""
    by = privacy(None if no_content else EVERY, no_content=no_content)
    (turn,) = await scored(None, by, paid("somebody", state=state))
    assert turn["state"] == kept


@pytest.mark.parametrize("place", SAID)
async def test_no_content_keeps_nothing_of_what_was_said(place: str) -> None:
    bare = privacy(None, None, no_content=True)
    (turn,), told = await told_of(place, "Rosebud was the name of 1 sledge", None, bare)
    assert turn["status"] == "done"
    assert lacks_content(turn["user_text"])
    expected = [] if place == "agent error" else [("lookup", "string")]
    assert [(call["name"], call["arguments"]["a"]) for call in turn["tool_calls"]] == expected
    assert "Rosebud" not in told


# ── scoring ─────────────────────────────────────────────────────────────────────────────────────────────────

SUITE = """
suite: private
evaluators: [{tool_call_args: {threshold: 1.0}}]
cases:
  - id: pay
    turns:
      - user: Pay ann@example.com
        expect: {tool_calls: [{name: pay, arguments: {to: ann@example.com}}], response_contains: ann@example.com}
  - id: other
    turns: [{user: Pay bob@example.com}]
"""


def paid(to: str, **fields: Any) -> Turn:
    said = {
        "user_text": "Pay ann@example.com",
        "response_text": f"paid {to}",
        "tool_calls": [ToolCall("pay", {"to": to})],
    }
    return kept_turn(1, **{"turn_id": new_turn_id(), **said, **fields})


@pytest.mark.parametrize(
    ("rules", "to", "passes"),
    [
        ("email:hash", "ann@example.com", True),
        ("email:hash", "eve@example.com", False),
        ("email", "ann@example.com", True),
        ("email", "eve@example.com", True),  # what is masked looks all the same
        ([{"name": "to", "action": "hash"}], "ann@example.com", True),
        ([{"name": "to", "action": "hash"}], "eve@example.com", False),
    ],
)
async def test_expectations_are_redacted_as_turns_are(rules: Any, to: str, passes: bool) -> None:
    (turn,) = await scored(parse_suite(SUITE), privacy(rules), paid(to))
    assert turn["case_id"] == "pay"
    assert to not in json.dumps([turn["tool_calls"], turn["evaluations"]])
    assert [result["passed"] for result in turn["evaluations"]] == [passes]


@pytest.mark.parametrize("action", ["mask", "hash"])
async def test_placeholders_stand_for_secrets_too(action: str) -> None:
    text = SUITE.replace("{to: ann@example.com}", "{token: {$type: string}}")
    made = paid("", tool_calls=[ToolCall("pay", {"token": {"$type": "sesame"}})])
    (turn,) = await scored(parse_suite(text), privacy(f"token:{action}"), made)
    assert "sesame" not in json.dumps(turn)
    assert [result["passed"] for result in turn["evaluations"]] == [True]


async def test_a_turn_left_pending_is_scored_the_same_after_a_restart(tmp_path: Path) -> None:
    rules = privacy("email:hash")
    async with running(parse_suite(SUITE), rules, tmp_path) as it:
        first = await it.take(paid("ann@example.com", turn_id="a"), paid("eve@example.com", turn_id="b"))
        for turn in first:
            left = Turn.from_dict(turn)
            left.turn_id, left.status = f"{left.turn_id}-again", "pending"
            it.store.add([left], lambda: None)
        await it.store.drained()
    async with running(parse_suite(SUITE), privacy("email:hash"), tmp_path) as it:
        assert await it.pipeline.resume() == 2
        turns = await it.take()
        assert [turn["evaluations"] for turn in turns[2:]] == [turn["evaluations"] for turn in first]


async def test_a_turn_left_pending_without_content_cannot_be_scored(tmp_path: Path) -> None:
    bare = privacy(None, None, no_content=True)
    async with running(parse_suite(SUITE), bare, tmp_path) as it:
        it.store.add([bare.stored(paid("ann@example.com", case_id="pay"))], lambda: None)
        await it.store.drained()
        assert await it.pipeline.resume() == 1
        (turn,) = await it.take()
        assert [result["status"] for result in turn["evaluations"]] == ["errored"]


async def test_without_content_turns_are_scored_by_what_was_said() -> None:
    made = [paid("ann@example.com"), paid("eve@example.com")]
    turns = await scored(parse_suite(SUITE), privacy(None, None, no_content=True), *made)
    assert [turn["evaluations"][0]["passed"] for turn in turns] == [True, False]
    assert {turn["tool_calls"][0]["arguments"]["to"] for turn in turns} == {"string"}
    assert {turn["evaluations"][0]["reason"] for turn in turns} == {""}


async def test_registered_cases_and_contexts_match_redacted_turns() -> None:
    async with running(None, privacy("email:hash")) as it:
        case = {
            "id": "put",
            "turns": [
                {"user": "x", "expect": {"tool_calls": [{"name": "pay", "arguments": {"to": "ann@example.com"}}]}}
            ],
        }
        it.cases.put(RegisteredCase(parse_case({**case, "evaluators": ["tool_call_args"]}), "user:ann@example.com"))
        made = paid("ann@example.com", conversation_id="user:ann@example.com", user_text="whatever")
        (turn,) = await it.take(made)
        assert turn["case_id"] == "put"
        assert turn["evaluations"][0]["score"] == 1.0


async def test_what_cannot_be_redacted_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(text: str) -> Iterator[tuple[int, int]]:
        raise RuntimeError(f"cannot read {text}")

    monkeypatch.setitem(DETECTORS, "email", broken)
    (turn,) = await scored(None, privacy("email"), paid("ann@example.com"))
    assert "ann@" not in json.dumps(turn) + caplog.text
    assert [finding["code"] for finding in turn["findings"]] == ["redaction_failed"]
    outcomes = {result["evaluator"]: result["status"] for result in turn["evaluations"]}
    assert outcomes.pop("turn_succeeded") == "failed"
    assert set(outcomes.values()) == {"errored"}
    assert (turn["run"], turn["tool_calls"]) == ("redaction-failed", [])


# ── settings ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (None, "the action hash needs a key"),
        ("${NONE}", "redact_key needs the environment variable NONE, which is not set"),
        ("${EMPTY}", "redact_key: expected a secret string"),
        ("${file:/no/such}", "redact_key needs the file /no/such"),
    ],
)
def test_a_key_that_cannot_be_had(key: str | None, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPTY", "")
    with pytest.raises(ConfigError, match=re.escape(message)):
        privacy_of(parse_rules("email:hash"), key)
