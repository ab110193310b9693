"""Suite files: what they say, and what a wrong one is answered with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import yaml
from a2a_tool_capture import Severity
from tool_call_evaluators import EvalCase, SuiteError, ToolDefinition, evaluate_sync, load_suite, parse_suite
from tool_call_evaluators.gates import Gate, RunGates
from tool_call_evaluators.model import CountCriterion, ExpectedCall, ExpectedOutput
from tool_call_evaluators.suite import CaseTurn, Expectation, Simulation, Suite, parse_case
from tool_call_evaluators.suite.lint import unscored_cases, unused_expectations
from tool_call_evaluators.suite.model import CombinationError, WorldExpectation, combined
from tool_call_evaluators.suite.parsing import read_kept_suite
from tool_call_evaluators.suite.writing import kept_suite, suite_dict, suite_text

FULL = """
suite: orders
agent: {url: "https://agent.example/a2a"}
evaluators:
  - tool_error
  - tool_trajectory: {mode: precision, id: precision}
  - tool_trajectory:
      matcher: {mode: subset, trim: true, per_tool: {search: ignore}}
tools:
  - {name: lookup_order, description: Finds an order., parameters: {type: object}}
gates:
  tool_error: 0.9
  precision: {pass_rate: 0.5, conversation_mean: 0.25}
  agent_behavior_failure: {forbid: [false information]}
  findings: {error: 0, warning: 5}
  captured: 1
  pass_rate: 0.95
tolerate: [unmeasured]
cases:
  - id: status
    tags: [smoke, orders]
    repeat: 3
    user_goal: Know where the order is.
    knowledge: Orders are sent within two days.
    tasks: [find the order]
    constraints: [be brief]
    turns:
      - user: Where is my order?
        expect:
          tool_calls: []
          response_contains: which order
      - user: ORD-1001
        expect:
          tool_calls:
            - {name: lookup_order, arguments: {order_id: {$regex: "ORD-[0-9]+"}}}
            - {name: audit, arguments: null, result: ok}
          tool_calls_order: [lookup_order, audit]
          tool_calls_count: {lookup_order: ["=", 1]}
          tool_outputs: [{name: audit, output: ok}]
          response: {status: sent}
      - user: Thanks!
  - id: without tools
    tools: []
    turns: [{user: Hello}]
"""


def test_everything_a_suite_can_say():
    suite = parse_suite(FULL)
    assert suite.agent.url == "https://agent.example/a2a"
    assert [evaluator.metric for evaluator in suite.build_evaluators()] == [
        "tool_error",
        "precision",
        "tool_trajectory",
    ]
    assert (suite.tolerate, suite.gates) == (
        {"unmeasured"},
        {
            "tool_error": Gate(mean=0.9),
            "precision": Gate(pass_rate=0.5, conversation_mean=0.25),
            "agent_behavior_failure": Gate(forbid=("false information",)),
        },
    )
    assert suite.run_gates == RunGates(findings={Severity.ERROR: 0, Severity.WARNING: 5}, captured=1, pass_rate=0.95)
    status, without_tools = suite.cases
    tool = ToolDefinition("lookup_order", "Finds an order.", {"type": "object"})
    assert (status.tools, suite.tools, without_tools.tools) == ((tool,), (tool,), ())
    assert (status.tags, status.conversations, status.turns[2]) == (("smoke", "orders"), 3, CaseTurn("Thanks!"))
    assert status.turns[1].expect == Expectation(
        tool_calls=(
            ExpectedCall("lookup_order", {"order_id": {"$regex": "ORD-[0-9]+"}}),
            ExpectedCall("audit", None, result="ok"),
        ),
        tool_calls_order=("lookup_order", "audit"),
        tool_calls_count={"lookup_order": CountCriterion("=", 1)},
        tool_outputs=(ExpectedOutput("audit", "ok"),),
        response={"status": "sent"},
    )


def test_what_is_evaluated_of_a_turn():
    status = parse_suite(FULL).cases[0]
    shared = {
        "tools": status.tools,
        "user_goal": "Know where the order is.",
        "knowledge": "Orders are sent within two days.",
        "tasks": ["find the order"],
        "constraints": ["be brief"],
    }
    of_first = {"user_text": "Where is my order?", "expected_tool_calls": [], "response_contains": "which order"}
    assert status.eval_case(0) == EvalCase(**shared, **of_first)
    assert status.eval_case(2, user_text="in other words", response_text="yes") == EvalCase(
        **shared, user_text="in other words", response_text="yes"
    )
    assert status.eval_case(3, user_text="one more") == EvalCase(**shared, user_text="one more"), "beyond the plan"


def turn(*lines):
    """A suite with one turn; `lines` continue it from line 5 on."""
    return "\n".join(["suite: x", "cases:", "  - id: a", "    turns:", *(f"      {line}" for line in lines)])


WRONG_AGENTS = [
    ("{url: agent.example}", "url: expected a URL that begins with http:// or https://"),
    ('{url: "http://user:secret@agent"}', "url: expected a URL without user name and password"),
    ('{url: "http://["}', "url: expected a URL that begins with http:// or https://"),
    ("{binding: SOAP}", "binding: unknown 'SOAP'; accepted are JSONRPC, HTTP+JSON, GRPC"),
    ("{streaming: 1}", "streaming: expected true or false, got 1"),
    ("{timeout: 0}", "timeout: expected seconds above 0, got 0"),
    ("{concurrency: 0}", "concurrency: expected a whole number from 1 to 1,000, got 0"),
    ("{header: {}}", "header: unknown key (did you mean headers?); accepted are url, headers,"),
]
WRONG_EVALUATORS = [
    ("{tool_error: {scope: run}}", "unknown 'run'; accepted are turn, conversation"),
    ("{overall_agent_score: {scope: turn}}", "this evaluator scores whole conversations"),
    ("{tool_error: {id: findings}}", "findings is the name of a gate on the run"),
]
WITH_GATES = """
evaluators: [tool_error, helpfulness, agent_behavior_failure]
cases: [{id: a, turns: [{user: hi}], evaluators: [{tool_trajectory: {id: whole}}]}]
"""
WRONG_GATES = [
    ("{helpfulness: 0.8}", "s.yaml:2:9: gates.helpfulness: must lie between 1 and 5, the scale of helpfulness"),
    ("{whole: {mean: 1.5}}", "gates.whole.mean: must lie between 0 and 1, the scale of tool_trajectory"),
    ("{tool_error: {conversation_mean: -1}}", "gates.tool_error.conversation_mean: must lie between 0 and 1"),
    ("{tool_error: {pass_rate: 95}}", "gates.tool_error.pass_rate: expected a number from 0 to 1, got 95"),
    (
        "{agent_behavior_failure: {forbid: [false informaton]}}",
        "forbid[0]: unknown 'false informaton' (did you mean false information?)",
    ),
    ("{findings: {fatal: 0}}", "gates.findings.fatal: unknown key; accepted are info, warning, error"),
    ("{findings: {error: -1}}", "gates.findings.error: expected a whole number from 0 to"),
    ("{captured: 2}", "gates.captured: expected a number from 0 to 1, got 2"),
    ("{pass_rate: most}", 'gates.pass_rate: expected a number, got "most"'),
]
WRONG_CASES = [
    (
        "turns: [{user: hi, agent: orders}, {user: there}]",
        "s.yaml:3:46: cases[0].turns[1]: agent is missing, which another turn names: give each turn its own, or "
        "the case that of the others",
    ),
    (
        "turns: [{user: hi, agent: orders}], simulate: {goal: g}",
        "cases[0]: agent is missing: name the one with which the simulated user continues after the turns",
    ),
    ("turns: [{user: hi, agent: /orders}]", "turns[0].agent: must be a name of at most 63 letters, digits and -"),
    (
        "expect: {tool_calls: []}, turns: [{user: hi}]",
        "s.yaml:3:11: cases[0].expect: no evaluator scores conversations",
    ),
    (
        "turns: [{user: u, expect: {state: reject}}]",
        "turns[0].expect.state: unknown 'reject' (did you mean rejected?); "
        "accepted are auth-required, canceled, completed, failed, input-required, rejected",
    ),
    ("turns: [{user: u, expect: {state: working}}]", "unknown 'working'"),
    ("turns: [{user: u, expect: {state: []}}]", "needs at least one state"),
    (
        "turns: [{user: u}], expect: {state: failed}",
        "expect.state: a turn ends in a state: write it in `expect` of the turn",
    ),
    (
        "turns: [{user: u, expect: {state_of_world: {command: [], equals: 1}}}]",
        "state_of_world: needs one of http, command and python",
    ),
    (
        "turns: [{user: u, expect: {state_of_world: {command: [ls]}}}]",
        "cases[0].turns[0].expect.state_of_world: equals is missing",
    ),
    (
        "turns: [{user: u, expect: {state_of_world: {python: world, equals: 1}}}]",
        'state_of_world.python: expected FILE.py:FUNCTION, got "world"',
    ),
    (
        "turns: [{user: u, expect: {state_of_world: {python: 'gone.py:orders', equals: 1}}}]",
        "s.yaml:3:55: cases[0].turns[0].expect.state_of_world.python: plug-in ",
    ),
    (
        "turns: [{user: u, expect: {state_of_world: {command: [ls], equals: {a: {$regex: '('}}}}}]",
        "state_of_world.equals: $regex '(' does not compile",
    ),
]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.yaml: is empty"),
        ("- a", "s.yaml:1:1: expected an object, got a list"),
        ("evaluators: []", "s.yaml:1:1: suite is missing"),
        ("suite: ' '", "s.yaml:1:1: suite: must not be blank"),
        ("suite: 7", "s.yaml:1:1: suite: expected a string, got 7; put it in quotes"),
        (
            "suite: x\ncase: []",
            "s.yaml:2:1: case: unknown key (did you mean cases?); "
            "accepted are suite, agent, plugins, evaluators, judge, simulated_user, tools, tool_classes, depth, "
            "prices, repeat, gates, tolerate, quarantine, cases",
        ),
        ("suite: x\ncases: 0", "s.yaml:2:1: cases: expected a list, got 0"),
        ("suite: x\ncases: [3]", "s.yaml:2:9: cases[0]: expected an object, got 3"),
        ("suite: x\ncases: [{id: a}]", "s.yaml:2:9: cases[0]: turns is missing; give turns, simulate, or both"),
        ("suite: x\ncases: [{id: a, simulate: {}}]", "s.yaml:2:17: cases[0].simulate: goal is missing"),
        (
            "suite: x\ncases: [{id: a, simulate: null}]",
            "s.yaml:2:17: cases[0].simulate: expected an object, got nothing",
        ),
        (
            "suite: x\ncases: [{id: a, simulate: {goal: x, max_turns: 0}}]",
            "s.yaml:2:37: cases[0].simulate.max_turns: expected a whole number from 1 to 100, got 0",
        ),
        (
            "suite: x\ncases: [{id: a, simulate: {goal: x, knowlege: y}}]",
            "s.yaml:2:37: cases[0].simulate.knowlege: unknown key (did you mean knowledge?); accepted are goal, ",
        ),
        (
            "suite: x\ncases: [{id: a, repeat: 2, simulate: {goal: x, conversations: 2}}]",
            "s.yaml:2:17: cases[0].repeat: repeat and simulate.conversations are the same number: give one",
        ),
        (
            "suite: x\ncases: [{id: a, given: {run: r, context_id: c}, turns: [{user: x}]}]",
            "s.yaml:2:17: cases[0].given: give a list of messages, or one of run (with case), simulate and context_id",
        ),
        (
            "suite: x\ncases: [{id: a, given: [hi, {user: x, answer: y}], turns: [{user: x}]}]",
            "s.yaml:2:17: cases[0].given: answer is missing in some: give one to all messages, or to none",
        ),
        (
            "suite: x\ncases: [{id: a, given: [hi, {usr: x}], turns: [{user: x}]}]",
            "s.yaml:2:30: cases[0].given[1].usr: unknown key (did you mean user?); accepted are user, answer, agent",
        ),
        ("suite: x\ncases: [{id: a, given: [], turns: [{user: x}]}]", "s.yaml:2:17: cases[0].given: needs 1 to 100"),
        (
            "suite: x\ncases: [{id: a, given: {simulate: {goal: x, conversations: 2}}, turns: [{user: x}]}]",
            "s.yaml:2:45: cases[0].given.simulate.conversations: is for the case itself: each of its conversations has",
        ),
        ("suite: x\ncases: [{id: a, turns: []}]", "s.yaml:2:17: cases[0].turns: needs at least one turn"),
        (
            "suite: x\ncases:\n- {id: a, turns: [{user: x}]}\n- {id: a, turns: [{user: x}]}",
            "s.yaml:4:4: cases[1].id: 'a' is already the id of an earlier case",
        ),
        (
            'suite: x\ncases: [{id: "a\\nb", turns: [{user: x}]}]',
            "s.yaml:2:10: cases[0].id: must be printable, without surrounding white space: it is sent in a header",
        ),
        (
            "suite: x\ncases: [{id: a, turns: [{user: x}], repeat: 0}]",
            "s.yaml:2:37: cases[0].repeat: expected a whole number from 1 to 1,000, got 0",
        ),
        (turn("- {}"), "s.yaml:5:9: cases[0].turns[0]: user is missing"),
        (turn("- user: null"), "s.yaml:5:9: cases[0].turns[0].user: expected a string, got nothing"),
        (turn("- user: hi", "  expect: [x]"), "s.yaml:6:9: cases[0].turns[0].expect: expected an object, got a list"),
        (
            turn("- user: hi", "  expect:", "    tool_call: []"),
            "s.yaml:7:11: cases[0].turns[0].expect.tool_call: unknown key (did you mean tool_calls?); accepted are "
            "tool_calls, tool_calls_order, tool_calls_count, tool_outputs, response, response_contains",
        ),
        (
            turn("- user: hi", "  expect: {tool_calls: [{name: ''}]}"),
            "s.yaml:6:32: cases[0].turns[0].expect.tool_calls[0].name: must not be blank",
        ),
        (
            turn("- user: hi", "  expect: {tool_calls: [{name: a, arguments: [1]}]}"),
            "s.yaml:6:41: cases[0].turns[0].expect.tool_calls[0].arguments: expected an object, got a list",
        ),
        (
            turn("- user: hi", "  expect: {tool_calls: [{name: a, arguments: {x: {$regex: '('}}}]}"),
            "s.yaml:6:41: cases[0].turns[0].expect.tool_calls[0].arguments: $regex '(' does not compile: "
            "missing ), unterminated subpattern at position 0",
        ),
        (
            turn("- user: hi", "  expect: {tool_calls: [{name: a, id: c1}]}"),
            "s.yaml:6:41: cases[0].turns[0].expect.tool_calls[0].id: unknown key; "
            "accepted are name, arguments, args, result, error",
        ),
        (
            turn("- user: hi", "  expect: {tool_calls: [{name: a, result: {$regex: '('}}]}"),
            "s.yaml:6:41: cases[0].turns[0].expect.tool_calls[0].result: $regex '(' does not compile: "
            "missing ), unterminated subpattern at position 0",
        ),
        (
            turn("- user: hi", "  expect: {tool_calls_count: {a: [1, '>']}}"),
            's.yaml:6:44: cases[0].turns[0].expect.tool_calls_count.a[1]: expected a number, got ">"',
        ),
        (
            turn("- user: hi", "  expect: {tool_outputs: [{name: a}]}"),
            "s.yaml:6:33: cases[0].turns[0].expect.tool_outputs[0]: output is missing",
        ),
        (
            "suite: x\nevaluators:\n  - tool_eror",
            "s.yaml:3:5: evaluators[0]: unknown evaluator 'tool_eror' (did you mean tool_error?)",
        ),
        (
            "suite: x\nevaluators:\n  - tool_error:\n      treshold: 1",
            "s.yaml:4:7: evaluators[0].tool_error.treshold: tool_error: unknown option 'treshold' "
            "(did you mean threshold?); known are threshold, id, error_detector",
        ),
        (
            "suite: x\nevaluators:\n  - tool_trajectory: {mode: 1}",
            "s.yaml:3:23: evaluators[0].tool_trajectory.mode: tool_trajectory: option mode must be one of strict, ",
        ),
        (
            "suite: x\nevaluators:\n  - tool_trajectory: {mode: strict, matcher: {mode: exat}}",
            "s.yaml:3:37: evaluators[0].tool_trajectory.matcher: tool_trajectory: option matcher: arguments: "
            "option mode must be one of exact, subset, superset, ignore; got 'exat' (did you mean exact?)",
        ),
        (
            "suite: x\nevaluators: [{tool_error: {error_detector: 1}}]",
            "s.yaml:2:28: evaluators[0].tool_error.error_detector: tool_error: option error_detector must be ",
        ),
        (
            "suite: x\nevaluators: [{a: , b: }]",
            "s.yaml:2:14: evaluators[0]: expected one evaluator: its name, or {name: options}",
        ),
        (
            "suite: x\nevaluators: [tool_error, tool_error]",
            "s.yaml:2:26: evaluators[1]: tool_error is already used; give one of the two its own `id`",
        ),
        (
            "suite: x\nquarantine: {statuss: {reason: a, until: 2026-12-31}}\n"
            "cases: [{id: status, turns: [{user: hi}]}]",
            "unknown 'statuss' (did you mean status?)",
        ),
        (
            "suite: x\nquarantine: {status: {reason: a, until: soon}}\ncases: [{id: status, turns: [{user: hi}]}]",
            "quarantine.status.until: expected a date, such as 2026-12-31",
        ),
        ("suite: x\ntools: [3]", "s.yaml:2:9: tools[0]: expected an object, got 3"),
        (
            "suite: x\ntools: [{}]",
            "s.yaml:2:9: tools[0]: name must be a non-empty string, got None",
        ),
        ("suite: x\ngates: {a: high}", 's.yaml:2:9: gates.a: expected a number, got "high"'),
        (
            "suite: x\ngates: {a: {}}",
            "s.yaml:2:9: gates.a: is empty; accepted are mean, conversation_mean, pass_rate, forbid",
        ),
        (
            "suite: x\ntolerate: [errors]",
            "s.yaml:2:12: tolerate[0]: unknown 'errors' (did you mean errored?); "
            "accepted are missing_turn, failed_turn, errored, unmeasured, vacuous, nothing_captured",
        ),
        ("suite: x\nplugins: [gone.py]", "s.yaml:2:11: plugins[0]: plug-in gone.py: no such Python file"),
        ('{"suite": "x",\n "cases": 3}', "s.yaml:2:2: cases: expected a list, got 3"),
        *((f"suite: x\nagent: {block}", f"s.yaml:2:9: agent.{message}") for block, message in WRONG_AGENTS),
        *((f"suite: x\nevaluators: [{one}]", message) for one, message in WRONG_EVALUATORS),
        *((f"suite: x\ngates: {gates}\n{WITH_GATES}", message) for gates, message in WRONG_GATES),
        *((f"suite: x\ncases:\n- {{id: a, {case}}}", message) for case, message in WRONG_CASES),
    ],
)
def test_a_wrong_suite_is_answered_with_one_sentence_and_its_place(text, message):
    with pytest.raises(SuiteError) as caught:
        parse_suite(text, "s.yaml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        '[{"name": "lookup_order", "description": "Finds an order."}]',
        '{"tools": [{"name": "lookup_order", "description": "Finds an order.", "inputSchema": {}}]}',
        "- {name: lookup_order, description: Finds an order.}",
    ],
)
def test_tool_definitions_from_a_file_beside_the_suite(tmp_path, content):
    (tmp_path / "tools.json").write_text(content)
    path = tmp_path / "orders.yaml"
    path.write_text("suite: x\ntools: tools.json\ncases: [{id: a, turns: [{user: hi}]}]")
    suite = load_suite(path)
    assert suite.tools == suite.cases[0].tools == (ToolDefinition("lookup_order", "Finds an order."),)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"orders.yaml:2:1: tools: no such file: .*tools.json"),
        (b'[{"name": "a"},\n {"description": "no name"}]', r"tools.json:2:2: \[1\]: name must be a non-empty string"),
        (b"[", r"tools.json:2:1: did not find"),
        (b"- {name: caf\xe9}", r"tools.json: is not UTF-8: byte 12 cannot be decoded"),
        (5_000_001 * b" ", r"tools.json: is larger than 5,000,000 bytes"),
    ],
)
def test_what_is_wrong_in_a_tool_file_is_said_of_that_file(tmp_path, content, message):
    path = tmp_path / "orders.yaml"
    path.write_text("\ufeffsuite: x\ntools: tools.json", "utf-8")
    if content is not None:
        (tmp_path / "tools.json").write_bytes(content)
    with pytest.raises(SuiteError, match=message):
        load_suite(path)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("gone.yaml", "No such file or directory$"),
        ("pipe.yaml", "it is not a regular file"),
        ("", "Is a directory"),
    ],
)
def test_what_is_no_file_is_refused(tmp_path, name, problem):
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(SuiteError, match=f"cannot be read: {problem}"):
        load_suite(tmp_path / name)


OF_THE_CONVERSATION = """
suite: orders
evaluators:
  - tool_error
  - tool_trajectory: {mode: superset, scope: conversation, id: journey}
cases:
  - id: refund
    expect:
      tool_calls: [{name: lookup_order}, {name: refund}]
      tool_calls_order: [lookup_order, refund]
      tool_calls_count: {refund: ["=", 1]}
      tool_outputs: [{name: refund, output: done}]
      response_contains: refunded
      response: {ok: true}
    turns: [{user: I want my money back.}, {user: "Yes, please."}]
"""


def test_what_is_expected_of_a_whole_conversation():
    suite = parse_suite(OF_THE_CONVERSATION)
    (case,) = suite.cases
    turns = [
        case.eval_case(0, tool_calls=[{"name": "lookup_order"}], response_text="Shall I?"),
        case.eval_case(1, tool_calls=[{"name": "refund"}], response_text="It is refunded."),
    ]
    whole = case.conversation_case(turns)
    assert turns[0].expected_tool_calls is None
    assert whole == EvalCase(
        tool_calls=[{"name": "lookup_order"}, {"name": "refund"}],
        response_text="It is refunded.",
        turns=turns,
        expected_tool_calls=[{"name": "lookup_order"}, {"name": "refund"}],
        tool_calls_order=["lookup_order", "refund"],
        tool_calls_count={"refund": ["=", 1]},
        tool_outputs=[{"name": "refund", "output": "done"}],
        response_contains="refunded",
        expected_response={"ok": True},
    )
    (journey,) = suite.build_evaluators("conversation")
    results = [evaluate_sync(one, [journey])[0] for one in (whole, case.conversation_case(turns[:1]))]
    assert [(result.evaluator, result.passed) for result in results] == [("journey", True), ("journey", False)]
    assert [evaluator.metric for evaluator in suite.build_evaluators("turn")] == ["tool_error"]


@pytest.mark.parametrize(
    ("text", "earlier", "index"),
    [("one", 0, 0), (" one ", 1, 2), ("two", 2, 1), ("in other words", 1, 1), ("one more", 3, 3)],
)
def test_which_turn_of_a_case_it_is(text, earlier, index):
    case = {"id": "a", "turns": [{"user": "one"}, {"user": "two"}, {"user": "one"}]}
    assert parse_case(case).turn_index(text, earlier) == index


def desk(**case):
    turns = [{"user": "ok", "agent": "refunds"}, {"user": "one"}, {"user": "ok"}]
    return parse_case({"id": "a", "agent": "orders", "turns": turns} | case)


def test_turns_of_a_case_are_for_the_agent_that_they_name_else_that_of_the_case():
    cases = [
        desk(),
        desk(turns=[{"user": "one"}]),
        parse_case({"id": "a", "simulate": {"goal": "g"}, "agent": "orders"}),
    ]
    assert [case.agents for case in cases] == [("refunds", "orders"), ("orders",), ("orders",)]
    assert [desk().agent_at(index) for index in range(4)] == ["refunds", "orders", "orders", "orders"]


@pytest.mark.parametrize(
    ("text", "earlier", "indices"),
    [("ok", 0, [0, 2, 0]), ("in other words", 0, [0, 1, 0]), ("in other words", 1, [3, 1, 1])],
)
def test_which_turn_of_a_case_with_several_agents_it_is(text, earlier, indices):
    assert [desk().turn_index(text, earlier, name) for name in ("refunds", "orders", None)] == indices


def test_the_cases_by_which_the_traffic_of_some_agents_is_judged():
    of_one, of_any = desk(id="b", turns=[{"user": "one"}]), parse_case({"id": "c", "turns": [{"user": "one"}]})
    suite = Suite(name="", cases=(desk(), of_one, of_any))
    assert suite.of_agents(["orders", "refunds"]).cases == (of_one, of_any)
    assert suite.of_agents(["refunds"], ["b"]).cases == (of_any,)
    assert suite.of_agents(["orders", "refunds"], ["a"]).cases == suite.cases


@pytest.mark.parametrize("named", ["../mine.py", "{0}/mine.py", "link.py"])
def test_plugins_outside_the_folder_are_run_where_that_is_allowed_only(tmp_path, named):
    folder = tmp_path / "suites"
    folder.mkdir()
    ran = tmp_path / "ran"
    (tmp_path / "mine.py").write_text(f"open({str(ran)!r}, 'w').close()")
    (folder / "link.py").symlink_to(tmp_path / "mine.py")
    file = folder / "s.yaml"
    file.write_text(f"suite: x\nplugins: [{named.format(tmp_path)}]\n")
    with pytest.raises(SuiteError, match=r"s.yaml:2:11: plugins\[0\]: .*outside the suite's directory.*--allow"):
        load_suite(file)
    assert not ran.exists()
    assert load_suite(file, allow_plugins=True).plugins == (tmp_path / "mine.py",)
    assert ran.exists()


@pytest.mark.parametrize("probe", ['command: ["./look"]', "python: ../world.py:orders", 'http: {url: "http://host"}'])
def test_only_a_suite_file_says_how_to_look_at_the_world_and_no_run_keeps_it(tmp_path, probe):
    (tmp_path / "world.py").write_text("def orders(about):\n    return about['case_id']")
    case = f"{{id: a, turns: [{{user: hi, expect: {{state_of_world: {{{probe}, equals: 1}}}}}}]}}"
    with pytest.raises(SuiteError, match=r"state_of_world\.\w+: may only be set in a suite file"):
        parse_case(yaml.safe_load(case))
    (tmp_path / "suites").mkdir()
    text, file = f"suite: x\ncases: [{case}]", str(tmp_path / "suites/s.yaml")
    if "python" in probe:
        with pytest.raises(SuiteError, match=r"s.yaml:2:62: .*python: .*world.py is outside the suite's directory"):
            parse_suite(text, file)
    suite = parse_suite(text, file, allow_plugins=True)
    folder = None if "http" in probe else str(tmp_path / "suites")
    assert suite.cases[0].turns[0].expect.state_of_world.folder == folder
    again, _ = read_kept_suite(kept_suite(suite))
    assert again.cases[0].turns[0].expect.state_of_world == WorldExpectation(equals=1)


SIMULATED = """
suite: refunds
cases:
  - id: refund
    simulate:
      goal: Get the money back.
      profile: Impatient.
      knowledge: [The order is ORD-1001., It was broken.]
      context: The support chat of a shop.
      opening: Hello
      max_turns: 6
      stop: Goodbye
      conversations: 3
  - id: own texts
    user_goal: Keep the customer.
    knowledge: Refunds take two days.
    turns: [{user: Hi, expect: {tool_calls: []}}]
    simulate: {goal: Get the money back., knowledge: It was broken.}
    repeat: 2
"""


def test_a_simulated_user():
    full, mixed = parse_suite(SIMULATED).cases
    assert full.simulate == Simulation(
        goal="Get the money back.",
        profile="Impatient.",
        knowledge=("The order is ORD-1001.", "It was broken."),
        context="The support chat of a shop.",
        opening="Hello",
        max_turns=6,
        stop="Goodbye",
        conversations=3,
    )
    assert (full.turns, full.conversations, mixed.conversations) == ((), 3, 2)
    assert mixed.simulate is not None
    assert (mixed.simulate.max_turns, mixed.simulate.knowledge) == (10, ("It was broken.",))


def test_evaluators_see_what_the_simulated_user_has_unless_the_case_has_its_own():
    full, mixed = parse_suite(SIMULATED).cases
    cases = [full.eval_case(0), mixed.conversation_case([mixed.eval_case(0)])]
    assert [(case.user_goal, case.knowledge, case.profile) for case in cases] == [
        ("Get the money back.", "The order is ORD-1001.\n\nIt was broken.", "Impatient."),
        ("Keep the customer.", "Refunds take two days.", None),
    ]
    assert [mixed.turn_index("Hi", earlier) for earlier in (0, 1, 2)] == [0, 1, 2], "simulated turns come after others"


@pytest.mark.parametrize(
    ("given", "states", "written"),
    [
        ("TASK_STATE_INPUT_REQUIRED", ("TASK_STATE_INPUT_REQUIRED",), "input-required"),
        ("input-required", ("TASK_STATE_INPUT_REQUIRED",), "input-required"),
        ("[rejected, TASK_STATE_REJECTED]", ("TASK_STATE_REJECTED",), "rejected"),
        (
            "[auth-required, rejected]",
            ("TASK_STATE_AUTH_REQUIRED", "TASK_STATE_REJECTED"),
            ["auth-required", "rejected"],
        ),
    ],
)
def test_states_have_the_names_of_every_version_of_a2a(given, states, written):
    suite = parse_suite(f"suite: s\ncases: [{{id: a, turns: [{{user: u, expect: {{state: {given}}}}}]}}]")
    assert [suite.cases[0].expect_at(index).state for index in (0, 1)] == [states, None]
    assert suite_dict(suite)["cases"][0]["turns"][0]["expect"]["state"] == written
    assert parse_suite(suite_text(suite)) == suite
    assert unused_expectations(suite) == unscored_cases(suite) == [], "no evaluator is needed"


@pytest.mark.parametrize(
    ("name", "case", "refused"),
    [
        ("a", "y", "the suite 'a' is in 1.yaml and in 2.yaml; rename one of them"),
        ("b", "x", "the case 'x' is in 1.yaml and in 2.yaml"),
    ],
)
def test_suites_with_a_name_or_a_case_in_common_are_not_combined(name, case, refused):
    text = "{{suite: {}, cases: [{{id: {}, turns: [{{user: hi}}]}}]}}"
    suites = [parse_suite(text.format(*names)) for names in (("a", "x"), (name, case))]
    with pytest.raises(CombinationError, match=refused):
        combined(suites, ("1.yaml", "2.yaml"))


SUITE = yaml.safe_load("""
suite: orders
evaluators:
  - tool_error
  - tool_trajectory: {mode: in_order, threshold: 1.0, matcher: {mode: subset, per_tool: {search: ignore}}}
  - tool_call_count: {tool_calls_count: {lookup_order: ['>', 1]}}
  - tool_call_output: {tool_outputs: [{name: lookup_order, output: sent}]}
  - tool_call_order: {tool_calls_order: [lookup_order]}
gates: {tool_error: {mean: 0.5, forbid: [lie]}, findings: {error: 0}, captured: 0.5, pass_rate: 1}
tolerate: [errored]
judge: {model: some-model, prices: {input: 1, output: 2}, extra_body: {seed: 7}, votes: 3}
tools: [{name: lookup_order, description: Finds., parameters: {type: object, properties: {id: {type: string}}}}]
cases:
  - id: status
    repeat: 2
    tasks: [find it]
    constraints: [be brief]
    knowledge: Orders are sent.
    evaluators: [{tool_call_count: {tool_calls_count: {lookup_order: ['=', 1]}}}]
    turns:
      - user: Where is it?
        expect:
          response: Sent.
          tool_calls:
            - name: lookup_order
              arguments: {a: {$type: [string]}, b: {$regex: x}, c: {$approx: 1, tolerance: 2}, d: {$any: true}}
""")
ODD = [
    *(None, True, 0, -1, 1.5, float("inf"), float("nan"), 10**400, "", "x", [], [[]], [{}], [None], {}, {"a": 1}),
    *({"$type": [{}]}, {"$type": [[]]}, {"$type": {}}, {"$type": []}, {"$regex": {}}, {"$regex": "("}, {"$any": []}),
    *({"$approx": "x"}, {"$approx": 10**400}, {"$approx": 1, "tolerance": []}, {"$approx": 1, "tolerance": 10**400}),
]


def read(value: Any) -> None:
    try:
        suite = parse_suite(yaml.dump(value, Dumper=yaml.CSafeDumper))
    except SuiteError:
        return
    for case in suite.cases:
        suite.build_evaluators("turn", case)
        suite.build_evaluators("conversation", case)


def variants(value: Any) -> Iterator[Any]:
    """The value with each of the odd ones at each place."""
    yield from ODD
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        for other in variants(item):
            yield {**value, key: other} if isinstance(value, dict) else [*value[:key], other, *value[key + 1 :]]


def test_an_odd_value_anywhere() -> None:
    """Each third of them."""
    for changed in islice(variants(SUITE), 0, None, 3):
        read(changed)
