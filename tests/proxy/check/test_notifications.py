"""Whatever an agent sends as a notification is judged, and shown in every form of report."""

from __future__ import annotations

import io
import json
from xml.etree import ElementTree as ET

from a2a_eval_proxy.check.probe import requests
from a2a_eval_proxy.check.probe.record import (
    Activation,
    CardSeen,
    CheckWebhook,
    Interface,
    NotificationSeen,
    ProbeRecord,
    ProbeRequest,
    PushSeen,
    PushTrial,
)
from a2a_eval_proxy.check.probe.responses import read_response
from a2a_eval_proxy.check.report.outputs import print_report, report_json, report_junit
from a2a_eval_proxy.check.report.report import apply_rules
from a2a_eval_proxy.check.rules.push import PUSH_RULES
from a2a_eval_proxy.protocol.operations import Binding, Operation
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console
from support.junk import almost_events

REST = Interface(Binding.HTTP_JSON, "1.0", "http://agent/rest")
STREAM = requests.send(REST, Operation.STREAM, "hello", "m", Activation.NOTHING)
CARD = CardSeen(ProbeRequest("GET", "http://agent/.well-known/agent-card.json"), {})
DEEP = b'{"task":{"id":"t","status":{},"deep":' + b"[" * 700 + b"]" * 700 + b"}}"


def seen_with(bodies: list[bytes]) -> PushSeen:
    """A webhook whose notifications, and the stream of the same message, have these bodies."""
    arrived = tuple(NotificationSeen(ProbeRequest("POST", "http://hook", (), body), 200) for body in bodies)
    opening = read_response(STREAM, 200, (), bodies)
    trial = PushTrial(CheckWebhook("http://hook", "t", "c"), opening, "t", ("TASK_STATE_COMPLETED",), arrived)
    return PushSeen(REST, trial, trial, {}, trial)


@settings(max_examples=30)
@given(st.lists(st.binary() | almost_events.map(lambda event: json.dumps(event).encode()), max_size=4))
@example([b"[" * 100_000])
def test_any_notification_is_judged_and_shown(bodies: list[bytes]) -> None:
    judge_and_show(bodies)


def test_deep_nesting_is_judged_and_shown() -> None:
    """Not in the test above: hypothesis raises the recursion limit."""
    judge_and_show([DEEP, DEEP])


def judge_and_show(bodies: list[bytes]) -> None:
    report = apply_rules(ProbeRecord(CARD, (), (), push=(seen_with(bodies),)))
    results = [result for result in report.results if result.rule.about == "push notifications"]
    assert [result.rule for result in results] == list(PUSH_RULES)
    json.dumps(report_json(report, "http://agent"), allow_nan=False)
    ET.fromstring(report_junit(report, "http://agent"))
    print_report(report, "http://agent", Console(file=io.StringIO()))
