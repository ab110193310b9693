"""`calibrate` end to end: a real store, a real HTTP endpoint that speaks the judge's API, scripted verdicts."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.cli.group import cli
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.features.calibrate.judging import calibrate
from a2a_eval_proxy.privacy.policy import privacy_of
from a2a_eval_proxy.privacy.redactor import detector_rule, without_content
from a2a_eval_proxy.runs.rescore import evaluate_store
from a2a_eval_proxy.store import open_store
from agents.serving import ServerThread
from click.testing import CliRunner
from judges.fake_api import KEY, MODEL, FakeApi, says
from support.kept import Kept, turn
from tool_call_evaluators import EvalResult, parse_suite
from tool_call_evaluators.outcomes.calibration import LabelError
from tool_call_evaluators.report.text_forms import calibration_lines

PAGE = Path(__file__).parents[3] / "evaluators/docs/calibration.md"
GRADED = """\
suite: answers
judge: {{model: {model}, base_url: "{url}/v1", retries: 0, concurrency: 8}}
evaluators: [{evaluators}]
"""


def grade_of(request: dict[str, Any]) -> int:
    """The grade that the answer asks for: `answer 17 grade 4`."""
    return int(re.findall(r"grade (\d)", request["messages"][-1]["content"])[-1])


def as_asked(request: dict[str, Any]) -> Any:
    return says({"reason": "so it is", "score": grade_of(request)})


ASKED_TWICE = 20
"""Most turns that tests ask about once more: a fifth of `MAX_ASKED_TWICE`, which commands in other processes have."""


class Scripted:
    """A judge at a port; `respond` is replaced at will."""

    def __init__(self) -> None:
        self.respond = as_asked
        self.api = FakeApi(lambda request: self.respond(request))
        self.url = ""

    def suite(self, evaluators: str = "helpfulness", model: str = MODEL) -> str:
        return GRADED.format(url=self.url, evaluators=evaluators, model=model)


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    monkeypatch.setenv("A2A_EVAL_PROXY_JUDGE_API_KEY", KEY)
    monkeypatch.setattr("a2a_eval_proxy.features.calibrate.judging.MAX_ASKED_TWICE", ASKED_TWICE)
    scripted = Scripted()
    with ServerThread(scripted.api.app) as server:
        scripted.url = server.url
        yield scripted


async def filled(path: Path, grades: list[int], run: str = "nightly") -> list[str]:
    """A store with a turn for each grade, done and without results."""
    kept = Kept(open_store(str(path)))
    turns = [
        turn(number, run=run, status="done", response_text=f"answer {number} grade {grade}")
        for number, grade in enumerate(grades)
    ]
    await kept.add(*turns)
    await asyncio.to_thread(kept.store.close)
    return [one.turn_id for one in turns]


def labels_file(path: Path, rows: list[dict[str, Any]], *, encoding: str = "utf-8") -> Path:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)))
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(text.getvalue(), encoding)
    return path


def said_of(result: EvalResult) -> str:
    """What a score says of its judge."""
    return str(result.details["judge"]["calibration"]["text"])


GRADES = [5, 4, 3, 2, 1] * 24  # 72 of 120 pass at the threshold of 3


def people(ids: list[str], grades: list[int] = GRADES, wrong: int = 6, **more: Any) -> list[dict[str, Any]]:
    """Labels that agree with the judge except for the first `wrong` turns that pass."""
    rows = []
    for turn_id, grade in zip(ids, grades, strict=True):
        passes = grade >= 3
        if passes and wrong:
            passes, wrong = False, wrong - 1
        rows.append({"turn_id": turn_id, "label": "pass" if passes else "fail", **more})
    return rows


async def test_from_labels_to_every_score(judge: Scripted, tmp_path: Path) -> None:
    store = tmp_path / "turns.db"
    ids = await filled(store, GRADES)
    suite = parse_suite(judge.suite())
    before = await evaluate_store(suite, str(store), "nightly")
    assert {said_of(result) for result in before.report.results} == {"not calibrated"}
    asked = len(judge.api.requests)
    assert asked == 120
    file = labels_file(tmp_path / "labels.csv", people(ids))
    (made,) = await calibrate(suite, str(store), labels=file)
    assert len(judge.api.requests) - asked == 2 * ASKED_TWICE  # all else comes from the cache
    assert made["confusion"] == {"k1": 66, "m1": 66, "k0": 48, "m0": 54}
    assert (made["labelled_turns"], made["labels"], made["enough"]) == (120, 120, True)
    assert made["agreement"]["value"] == 0.95
    assert made["consistency"]["twice"]["value"] == 1
    assert made["consistency"]["order_swapped"] is None  # grades have no order to swap
    assert {one["turn_id"] for one in made["disagreements"]} == {
        turn_id for turn_id, row in zip(ids, people(ids), strict=True) if row["label"] == "fail"
    } & {turn_id for turn_id, grade in zip(ids, GRADES, strict=True) if grade >= 3}

    after = await evaluate_store(suite, str(store), "nightly")
    said = {said_of(result) for result in after.report.results}
    assert said == {"agrees with people in 95 %, 90 to 98, n = 120"}
    assert len(judge.api.requests) - asked == 2 * ASKED_TWICE


async def test_a_judge_that_decides_what_texts_mean_is_calibrated_like_any_other(
    judge: Scripted, tmp_path: Path
) -> None:
    judge.respond = lambda request: says({"pair_1": {"reason": "so it is", "verdict": grade_of(request) >= 3}})
    ids = await filled(tmp_path / "turns.db", GRADES)
    suite = parse_suite(judge.suite("tool_error, {exact_match: {expected: {$same: it is good}}}"))
    file = labels_file(tmp_path / "labels.csv", people(ids))
    (made,) = await calibrate(suite, str(tmp_path / "turns.db"), labels=file)
    assert (made["metric"], made["confusion"]) == ("exact_match", {"k1": 66, "m1": 66, "k0": 48, "m0": 54})
    scored = await evaluate_store(suite, str(tmp_path / "turns.db"), "nightly")
    judged = [result for result in scored.report.results if result.evaluator == "exact_match"]
    assert {said_of(result) for result in judged} == {"agrees with people in 95 %, 90 to 98, n = 120"}
    assert len(judge.api.requests) == 120 + 2 * ASKED_TWICE


async def test_a_judge_of_labels_is_asked_with_its_choices_in_the_opposite_order(
    judge: Scripted, tmp_path: Path
) -> None:
    """This judge always takes the first choice."""

    def first(request: dict[str, Any]) -> Any:
        schema = request["response_format"]["json_schema"]["schema"]["properties"]["label"]
        return says({"reason": "r", "label": schema["enum"][0]})

    judge.respond = first
    ids = await filled(tmp_path / "turns.db", GRADES[:60])
    rows = [{"turn_id": turn_id, "label": "no failure", "evaluator": "agent_behavior_failure"} for turn_id in ids]
    file = labels_file(tmp_path / "labels.csv", rows)
    (made,) = await calibrate(
        parse_suite(judge.suite("agent_behavior_failure")), str(tmp_path / "turns.db"), labels=file
    )
    assert made["consistency"]["twice"]["value"] == 1
    assert made["consistency"]["order_swapped"]["value"] == 0
    assert made["kappa"]["undefined"] == "all labels are of one class"
    assert made["tnr"]["undefined"]


async def test_labels_of_what_cannot_be_judged(judge: Scripted, tmp_path: Path) -> None:
    store = str(tmp_path / "turns.db")
    ids = await filled(tmp_path / "turns.db", GRADES[:10])
    rows = [
        *people(ids, GRADES[:10], 0),
        {"turn_id": "nobody-knows-it", "label": "pass"},
        {"turn_id": "=HYPERLINK()", "label": 1},
    ]
    (made,) = await calibrate(parse_suite(judge.suite()), store, labels=labels_file(tmp_path / "l.csv", rows))
    assert made["excluded"] == {"unknown turns": 2}
    assert made["enough"] is False
    only_unknown = labels_file(tmp_path / "u.csv", rows[-2:])
    for evaluators, labels, problem in (
        ("helpfulness", only_unknown, "helpfulness: no labelled turn can be judged: 2 unknown turns"),
        ("helpfulness", None, "no labels of helpfulness: give some on the page /label"),
        ("tool_error", None, "the suite has no judged evaluators"),
        ("{helpfulness: {threshold: null}}", None, "helpfulness has no threshold"),
        ("helpfulness, relevance", only_unknown, "several judges: name one in the column evaluator"),
    ):
        with pytest.raises((ConfigError, LabelError), match=problem):
            await calibrate(parse_suite(judge.suite(evaluators)), store, labels=labels)


async def test_the_judge_sees_turns_as_the_rules_of_privacy_redact_them(judge: Scripted, tmp_path: Path) -> None:
    kept = Kept(open_store(str(tmp_path / "turns.db")))
    texts = {"user_text": "I am ann@example.com", "response_text": "Sent to ann@example.com, grade 4"}
    bare = without_content(turn(2, status="done", **texts))
    await kept.add(turn(1, status="done", **texts), bare)
    await asyncio.to_thread(kept.store.close)
    file = labels_file(tmp_path / "l.csv", [{"turn_id": f"turn-000{number}", "label": "pass"} for number in (1, 2)])
    privacy = privacy_of([detector_rule("email")], None)
    (made,) = await calibrate(parse_suite(judge.suite()), str(tmp_path / "turns.db"), labels=file, privacy=privacy)
    assert (made["labelled_turns"], made["excluded"]) == (1, {"turns without content": 1})
    sent = json.dumps(judge.api.requests)
    assert "grade 4" in sent
    assert "ann@example.com" not in sent


# ── conversations ───────────────────────────────────────────────────────────────────────────────────────────

REACHED = [5, 4, 3, 2, 1] * 12  # 36 of 60 conversations reach 0.5, the threshold of goal_completion
GOAL = """\
cases:
  - id: parcel
    user_goal: to know where the parcel is
    turns: [{user: where is it}, {user: and when does it come}]
"""


async def filled_with_conversations(path: Path, grades: list[int] = REACHED, run: str = "nightly") -> None:
    """A store with a conversation of two turns of the case for each grade: `c-0` with `run-0-0` and `run-0-1`."""
    kept = Kept(open_store(str(path)))
    for number, grade in enumerate(grades):
        whole = {"conversation_id": f"c-{number}", "case_id": "parcel", "run": run, "status": "done"}
        asked = ("where is it", "and when does it come")
        await kept.add(
            *(
                turn(
                    2 * number + place,
                    turn_id=f"{run}-{number}-{place}",
                    user_text=text,
                    response_text=f"answer {number} grade {grade if place else 3}",
                    **whole,
                )
                for place, text in enumerate(asked)
            )
        )
    await asyncio.to_thread(kept.store.close)


def of_conversations(grades: list[int] = REACHED, wrong: int = 3) -> list[dict[str, Any]]:
    ids = [f"c-{number}" for number in range(len(grades))]
    return [
        {"conversation_id": row.pop("turn_id"), **row, "evaluator": "goal_completion"}
        for row in people(ids, grades, wrong)
    ]


async def standings(suite: Any, store: Path, run: str = "nightly") -> set[str]:
    """What the scores of judges of conversations say, after they are scored again."""
    scored = await evaluate_store(suite, str(store), run)
    return {said_of(result) for one in scored.report.conversations for result in one.results}


async def test_a_judge_of_conversations_from_labels_to_every_score(judge: Scripted, tmp_path: Path) -> None:
    store = tmp_path / "turns.db"
    await filled_with_conversations(store)
    suite = parse_suite(judge.suite("goal_completion") + GOAL)
    assert await standings(suite, store) == {"not calibrated"}
    asked = len(judge.api.requests)
    assert asked == 60
    file = labels_file(tmp_path / "labels.csv", of_conversations())
    (made,) = await calibrate(suite, str(store), labels=file)
    assert len(judge.api.requests) - asked == 2 * ASKED_TWICE  # for the consistency; the verdicts come from the cache
    assert (made["scope"], made["labelled_turns"], made["excluded"]) == ("conversation", 60, {})
    assert made["confusion"] == {"k1": 33, "m1": 33, "k0": 24, "m0": 27}
    assert made["consistency"]["twice"]["n"] == ASKED_TWICE
    assert {(one["run"], one["conversation_id"], one["turn_id"]) for one in made["disagreements"]} == {
        ("nightly", f"c-{number}", f"nightly-{number}-0") for number in (0, 1, 2)
    }
    assert "60 labels of 1 rater on 60 conversations" in calibration_lines(made)
    assert await standings(suite, store) == {"agrees with people in 95 %, 86 to 98, n = 60"}


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_command_says_what_its_page_shows(
    judge: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shown,) = re.findall(r"\$ a2a-eval-proxy (calibrate .*)\n((?:.*\n)*?)    …", PAGE.read_text("utf-8"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("a2a_eval_proxy.features.calibrate.judging.MAX_ASKED_TWICE", 90)
    given = [("pass", 4)] * 56 + [("fail", 1)] * 24 + [("pass", 2)] * 2 + [("fail", 5)] * 6
    given.insert(7, ("pass", 2))
    given.insert(17, ("fail", 5))
    ids = await filled(Path("a2a-eval-proxy.db"), [grade for _, grade in given])
    Path("suite.yaml").write_text(judge.suite())
    rows = [{"turn_id": one, "label": label} for one, (label, _) in zip(ids, given, strict=True)]
    arguments = [*shown[0].split(), "--labels", str(labels_file(tmp_path / "labels.csv", rows))]
    done = await asyncio.to_thread(CliRunner().invoke, cli, arguments)
    assert done.output.startswith(shown[1]), done.output
    done = await asyncio.to_thread(CliRunner().invoke, cli, [*arguments, "--output", "json"])
    assert json.loads(done.stdout)[0]["disagreement_count"] == 10
