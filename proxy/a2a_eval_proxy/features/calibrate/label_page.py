"""Judges: what calibrations say about them, and the page on which people label turns or conversations, blind to the
judge's verdict."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from tool_call_evaluators.evaluator import EvaluatorBase
from tool_call_evaluators.judge.question import load_prompt
from tool_call_evaluators.judged.base import GradedEvaluator, JudgeableEvaluator, LabelledEvaluator
from tool_call_evaluators.options import OptionError
from tool_call_evaluators.outcomes.calibration import MIN_LABELS
from tool_call_evaluators.outcomes.conversations import agent_of_conversation
from tool_call_evaluators.registry import evaluator_class
from tool_call_evaluators.report.text_forms import calibration_lines
from tool_call_evaluators.suite import Suite
from tool_call_evaluators.texts import EXPECTATION_WORDS

from ...admin.api_route import form_of
from ...admin.control import Control
from ...admin.turn_changes_api import MAX_NOTE, MAX_WHO, annotate, remove_annotation
from ...store import TurnQuery
from ...store.base import Evaluations, TurnJson
from ...store.turn_filter import TurnFilter
from ...turn import Turn
from ..pages.call_rows import call_rows
from ..pages.screen import Screen, Values, View
from ..pages.turn_page import shown_turn

MAX_TO_LABEL = 1_000
"""Turns, or conversations, that are offered: the newest, of which a page of the store has turns."""
MAX_OF_CONVERSATION = 200
"""Turns of a conversation that are shown."""
_EARLIER = 5  # turns before the one to label, which the judge is given too
_NEWEST = 100  # turns, and conversations, in which judges are looked for; runs to choose from
_MOST_KEYS = 9  # choices that have a key of their own


async def judged_metrics(control: Control) -> list[str]:
    """The metrics of judges: of the suite, of the newest turns, and of the newest conversations."""
    suites = [scoring.suite for scoring in control.every_scoring if scoring.suite]
    built = [(suite, spec.build()) for suite in suites for spec in suite.specs]
    of_suite = [item.metric for suite, item in built if suite.needs_judge(item)]
    newest = await control.store.turns(TurnQuery(status="done", limit=_NEWEST, newest_first=True))
    results = [result for turn in newest.items for result in turn["evaluations"]]
    results += [one for _, of_whole in await control.store.newest_conversations(None, _NEWEST) for one in of_whole]
    of_results = [one["evaluator"] for one in results if "prompt" in (one["details"].get("judge") or {})]
    return list(dict.fromkeys((*of_suite, *of_results)))


async def _judges(view: View) -> Values:
    made = sorted(await view.control.store.calibrations(), key=lambda one: (one["metric"], one["at"]), reverse=True)
    return {
        "judges": [(one, calibration_lines(one), one["disagreements"]) for one in made],
        "metrics": await judged_metrics(view.control),
        "least": MIN_LABELS,
    }


async def _label(view: View) -> Values:
    query, store = view.request.query_params, view.control.store
    metric, who, run = query.get("metric", ""), query.get("who", "").strip()[:MAX_WHO], query.get("run") or None
    agent = query.get("agent") or None
    values = {"metric": metric, "who": who, "run": run, "agent": agent, "max_who": MAX_WHO, "max_note": MAX_NOTE}
    values |= {"turn": None, "kind": "turn"}
    if not metric or not who:
        metrics = [metric] if metric else await judged_metrics(view.control)
        runs = dict.fromkeys([*([run] if run else []), *await store.run_names(_NEWEST)])
        return {**values, "metric": metrics[0] if len(metrics) == 1 else "", "metrics": metrics, "runs": runs}
    of_metric = TurnQuery(
        run=run, agent=agent, status="done", limit=MAX_TO_LABEL, newest_first=True, content=TurnFilter(evaluator=metric)
    )
    found = (await store.turns(of_metric)).items
    offered = [turn["turn_id"] for turn in found if _has_result(turn["evaluations"], metric)]
    kind = "turn" if offered else "conversation"
    if not offered:
        newest = await store.newest_conversations(run, MAX_TO_LABEL, agent)
        offered = [turn_id for turn_id, results in newest if _has_result(results, metric)]
    offered.sort(key=lambda turn_id: sha256(turn_id.encode("utf-8", "replace")).digest())  # the same for all raters
    labels = [
        one for one in await store.annotations(run) if one["evaluator"] == metric and one.get("label") is not None
    ]
    known = set(offered)
    people = [one for one in labels if one["by"] == "person" and one["turn_id"] in known]
    names = {scoring.privacy.stored_note(who) for scoring in view.control.every_scoring}
    mine = {one["turn_id"]: one for one in people if one["who"] in names}
    after = query.get("after")
    turn_id = query.get("turn") or _next(offered, mine, after)
    values |= {
        "kind": kind if offered else "turn",
        "offered": len(offered),
        "mine": len(mine),
        "labelled": len({one["turn_id"] for one in people}),
        "raters": len({one["who"] for one in people}),
        "last": after if after in mine else None,
        "least": MIN_LABELS,
    }
    if turn_id is None:
        return values
    turn = await store.turn(turn_id)
    if turn is None:
        raise HTTPException(404, f"There is no turn {turn_id[:200]!r}.")
    scoring = view.control.scoring_of(turn)
    evaluator = _evaluator(scoring.suite, metric)
    offers = choices(evaluator)
    is_graded = isinstance(evaluator, GradedEvaluator) and offers[0][0].isdigit()
    turns = [turn] if kind == "turn" else await _of_conversation(view, turn)
    case = scoring.cases.case(turn["case_id"]) if turn["case_id"] else None
    return values | {
        "turn": turn,
        "own": mine.get(turn_id),
        "turns": [await _shown(view, one) for one in turns[:MAX_OF_CONVERSATION]],
        "is_cut": len(turns) > MAX_OF_CONVERSATION,
        "goal": case.user_goal if case is not None and kind == "conversation" else None,
        "expected_names": EXPECTATION_WORDS,
        "earlier": await store.earlier(Turn.from_dict(dict(turn)), _EARLIER, agent_of_conversation(turn))
        if kind == "turn"
        else [],
        "choices": offers,
        "rubric": _rubric(evaluator),
        "threshold": getattr(evaluator, "threshold", None) if is_graded else None,
    }


def _has_result(results: Evaluations, metric: str) -> bool:
    return any(one["evaluator"] == metric and one["status"] != "skipped" for one in results)


async def _of_conversation(view: View, first: TurnJson) -> list[TurnJson]:
    """The turns of the conversation and case of this turn; at most one more than are shown."""
    query = TurnQuery(
        run=first["run"],
        conversation=first["conversation_id"],
        case=first["case_id"],
        agent=agent_of_conversation(first),
        limit=MAX_OF_CONVERSATION + 1,
    )
    found = await view.control.store.turns(query)
    return [one for one in found.items if one["case_id"] == first["case_id"]]


async def _shown(view: View, turn: TurnJson) -> dict[str, Any]:
    shown = await shown_turn(view, turn)
    return {name: shown.get(name) for name in ("user", "agent", "expect", "unseen")} | {
        "calls": call_rows(shown),
        "made": len(turn["tool_calls"]),
    }


def _next(offered: Sequence[str], mine: Any, after: str | None) -> str | None:
    """The first turn that the rater has not labelled, from the one that follows `after`; None: all are labelled."""
    begin = offered.index(after) + 1 if after in offered else 0
    return next((one for one in [*offered[begin:], *offered[:begin]] if one not in mine), None)


def _evaluator(suite: Suite | None, metric: str) -> EvaluatorBase | type[EvaluatorBase] | None:
    """The evaluator of the suite that goes by this name, else the registered one; None for an unknown one."""
    built = (spec.build() for spec in (suite.specs if suite else ()))
    found = next((one for one in built if one.metric == metric), None)
    try:
        return found or evaluator_class(metric)
    except OptionError:
        return None


def choices(evaluator: EvaluatorBase | type[EvaluatorBase] | None) -> list[tuple[str, str, str]]:
    """The labels to choose from, each with its text and its key: the names of labels, grades up to nine, else pass and
    fail."""
    kind = evaluator if isinstance(evaluator, type) else type(evaluator)
    if issubclass(kind, LabelledEvaluator) and len(kind.labels) <= _MOST_KEYS:
        return [(label, label, str(key)) for key, label in enumerate(reversed(kind.labels), start=1)]
    if issubclass(kind, GradedEvaluator) and kind.scale == kind.grades and kind.grades[1] <= _MOST_KEYS:
        low, high = kind.grades
        return [(str(grade),) * 3 for grade in range(high, low - 1, -1)]
    return [("pass", "Pass", "p"), ("fail", "Fail", "f")]


def _rubric(evaluator: EvaluatorBase | type[EvaluatorBase] | None) -> str:
    """What the judge is asked, without the criteria of the suite: people judge by the same words."""
    kind = evaluator if isinstance(evaluator, type) else type(evaluator)
    if not issubclass(kind, JudgeableEvaluator):
        return ""
    prompt = kind.prompt or kind.name
    try:
        text = load_prompt(prompt).text if isinstance(prompt, str) else prompt.text
    except LookupError:
        text = ""
    criteria = getattr(evaluator, "criteria", None)
    return f"{text}\n\nCriteria: {criteria}" if isinstance(criteria, str) and criteria else text


async def _give(view: View) -> Response:
    form, control = await form_of(view.request), view.control
    turn_id, metric, who = form.get("turn_id", ""), form.get("metric", ""), form.get("who", "").strip()
    if not who or not metric or not form.get("label"):
        raise HTTPException(400, "A label needs the name of the rater, an evaluator and a label.")
    stored = await control.store.turn(turn_id)
    given = {"evaluator": metric, "label": form["label"], "who": who, "note": form.get("note", "")}
    annotation = await annotate(control, turn_id, given)  # first: a refused label replaces none
    for one in (stored or {}).get("annotations", ()):
        if one.get("label") is not None and (one["evaluator"], one["who"]) == (metric, annotation.who):
            await remove_annotation(control, turn_id, one["annotation_id"])
    return RedirectResponse(
        view.link("label", metric=metric, who=who, run=form.get("run"), agent=form.get("agent") or None, after=turn_id),
        303,
    )


SCREENS = (
    Screen("/judges", "calibrate/judges.html", _judges, nav="Judges"),
    Screen("/label", "calibrate/label.html", _label, action=_give),
)
