"""Building evaluators by name, and what a wrong name or option is answered with."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import pytest
from support.patience import PATIENCE_S
from tool_call_evaluators import (
    AsyncEvaluator,
    EvalCase,
    EvalResult,
    Measurement,
    OptionError,
    SkipEvaluation,
    Status,
    SyncEvaluator,
    evaluate,
    evaluate_sync,
    get_evaluator,
    register,
    registry,
)
from tool_call_evaluators.metrics.tool_error import ToolError
from tool_call_evaluators.options import snake_case
from tool_call_evaluators.plugins import load_plugin


@dataclass(frozen=True, kw_only=True)
class Politeness(SyncEvaluator):
    """Scores 1 for an answer with a please in it."""

    name: ClassVar[str] = "test_politeness"
    word: str = "please"

    def measure(self, case: EvalCase) -> Measurement:
        return Measurement(float(self.word in (case.response_text or "")), "looked for the word")


@pytest.mark.parametrize(
    ("name", "spelling", "option", "value"),
    [
        ("exact_match", "expected_output", "expected", "sent"),
        ("json_similarity", "expected_output", "expected", {"status": "sent"}),
        ("llm_judge_output", "expected_output", "expected", "sent"),
        ("tool_trajectory", "match_mode", "mode", "recall"),
        ("tool_trajectory", "arguments", "matcher", "subset"),
        ("tool_correctness", "match_mode", "mode", "names_and_args"),
    ],
)
def test_options_may_be_spelled_as_elsewhere(name, spelling, option, value):
    assert get_evaluator(name, **{spelling: value}) == get_evaluator(name, **{option: value})
    assert get_evaluator(name, **{spelling: value}) != get_evaluator(name)
    with pytest.raises(OptionError, match=f"{name}: options {spelling} and {option} are the same; give one of them"):
        get_evaluator(name, **{spelling: value, option: value})


@pytest.mark.parametrize(
    ("name", "spelled", "options"),
    [
        pytest.param("tool_trajectory", {"matchMode": "IN_ORDER"}, {}, marks=pytest.mark.statement(183)),
        pytest.param("tool_trajectory", {"matchMode": "ANY_ORDER"}, {"mode": "any_order"}),
        pytest.param("tool_correctness", {"matchMode": "NAMES_AND_ARGS"}, {"mode": "names_and_args"}),
        pytest.param(
            "tool_trajectory",
            {"argumentMatcher": "SUBSET"},
            {"matcher": "subset"},
            marks=pytest.mark.statement(184),
        ),
        pytest.param(
            "tool_trajectory",
            {"argumentMatcher": {"mode": "EXACT", "perTool": {"book_hotel": "SUBSET"}}},
            {"matcher": {"per_tool": {"book_hotel": "subset"}}},
            marks=pytest.mark.statement(185),
        ),
        pytest.param(
            "tool_efficiency",
            {"argumentMatcher": {"trimStrings": True, "caseInsensitive": True}},
            {"matcher": {"trim": True, "case_insensitive": True}},
            marks=pytest.mark.statement(217),
        ),
        pytest.param("tool_call_validity", {"strictMode": True}, {"strict": True}, marks=pytest.mark.statement(253)),
        pytest.param(
            "tool_description_reliability",
            {"maxInputArgs": 4, "maxOptionalArgs": 2},
            {"max_num_input_arguments": 4, "max_optional_input_arguments": 2},
            marks=pytest.mark.statement(254),
        ),
        pytest.param("exact_match", {"Expected-Output": "sent"}, {"expected": "sent"}),
        *(pytest.param(name, {}, {}) for name in ("ToolTrajectoryEvaluator", "toolTrajectory", "TOOL-TRAJECTORY")),
    ],
)
def test_names_and_words_may_be_in_another_case(name, spelled, options):
    own = snake_case(name).removesuffix("_evaluator")
    assert get_evaluator(name, **spelled) == get_evaluator(own, **options)


def test_a_registered_class_is_built_by_name():
    register(Politeness)
    evaluator = get_evaluator("test_politeness", word="kindly", threshold=0.5, id="manners")
    assert (evaluator.metric, evaluator.threshold) == ("manners", 0.5)
    assert evaluator.evaluate(EvalCase(response_text="kindly wait")).evaluator == "manners"
    assert register(Politeness) is Politeness


def test_a_name_is_taken_once():
    @dataclass(frozen=True, kw_only=True)
    class Other(Politeness):
        name: ClassVar[str] = "tool_error"

    with pytest.raises(OptionError, match=r"tool_error: already registered by tool_call_evaluators\.metrics\."):
        register(Other)


@pytest.mark.parametrize(
    ("name", "options", "complaint", "option"),
    [
        ("tool_eror", {}, r"unknown evaluator 'tool_eror' \(did you mean tool_error\?\)$", None),
        ("qqq", {}, r"unknown evaluator 'qqq'; known are .*tool_error", None),
        ("tool_error", {"treshold": 1}, r"unknown option 'treshold' \(did you mean threshold\?\)", "treshold"),
        ("tool_error", {"threshold": "1"}, "threshold must be a number or null; got '1'", "threshold"),
        ("tool_error", {"threshold": True}, "threshold must be a number or null; got True", "threshold"),
        ("tool_error", {"threshold": 1.5}, "threshold must lie between 0 and 1; got 1.5", "threshold"),
        ("tool_error", {"threshold": float("nan")}, "threshold must lie between", "threshold"),
        ("tool_error", {"id": 3}, "id must be a string or null; got 3", "id"),
        ("tool_call_args", {"strict": 1}, "strict must be true or false; got 1", "strict"),
        ("external", {}, "external: option command must be given", "command"),
        ("tool_trajectory", {"mode": "unordered"}, "mode must be one of strict, in_order, any_order", "mode"),
        ("tool_trajectory", {"matchMode": "UNORDERED"}, "option mode must be one of .*; got 'UNORDERED'", "mode"),
        ("tool_trajectory", {"matchMode": "STRICT", "mode": "strict"}, "matchMode and mode are the same", "mode"),
        (
            "tool_trajectory",
            {"matchMode": "STRICT", "match_mode": "strict"},
            "options matchMode and match_mode are the same; give one of them",
            "match_mode",
        ),
        (
            "tool_trajectory",
            {"argumentMatchr": "exact"},
            r"unknown option 'argumentMatchr' \(did you mean argument_matcher\?\)",
            "argumentMatchr",
        ),
        (
            "tool_trajectory",
            {"matcher": {"trimString": True}},
            r"option matcher: unknown option 'trimString' \(did you mean",
            "matcher",
        ),
    ],
)
def test_a_wrong_name_or_option_is_answered_with_what_is_accepted(name, options, complaint, option):
    with pytest.raises(OptionError, match=complaint) as caught:
        get_evaluator(name, **options)
    assert caught.value.option == option


ASKS_FOR_INSTALLED = """
from tool_call_evaluators import EvalCase, OptionError, evaluator_names, get_evaluator
from tool_call_evaluators.suite import parse_suite
parse_suite("{suite: of built-in ones, evaluators: [tool_error]}")
print(*evaluator_names(), sep=" - ")
print(get_evaluator("test_installed").evaluate(EvalCase()).score)
for name in ("test_plain", "test_broken"):
    try:
        get_evaluator(name)
    except OptionError as error:
        print(error)
"""


def test_installed_plugins_are_listed_and_loaded_when_asked_for(tmp_path):
    """By another process: which distributions there are is found out once. Suites do without a broken one."""
    (tmp_path / "installed_metrics.py").write_text(
        "from tool_call_evaluators import metric\n"
        "@metric()\n"
        "def test_installed(case): return 1\n"
        "def test_plain(case): return 1\n"
    )
    places = {name: f"installed_metrics:{name}" for name in ("test_installed", "test_plain")}
    places["test_broken"] = "no_such_module:Thing"
    distribution = tmp_path / "installed-1.dist-info"
    distribution.mkdir()
    entries = [f"{name} = {place}\n" for name, place in places.items()]
    (distribution / "entry_points.txt").write_text(f"[{registry.ENTRY_POINT_GROUP}]\n" + "".join(entries))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", ASKS_FOR_INSTALLED]
    names, *said = subprocess.check_output(command, text=True, env=os.environ | {"PYTHONPATH": path}).splitlines()
    assert {*places, "tool_error"} <= set(names.split(" - "))
    assert said == [
        "1.0",
        "plug-in installed_metrics:test_plain: it is not an evaluator; decorate a function with @metric()",
        "plug-in no_such_module:Thing: ModuleNotFoundError: No module named 'no_such_module'",
    ]


def test_a_plugin_file_registers_its_evaluators(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from tool_call_evaluators import SyncEvaluator, Measurement, register\n"
        "@register\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Mine(SyncEvaluator):\n"
        "    name: ClassVar[str] = 'test_mine'\n"
        "    def measure(self, case):\n"
        "        return Measurement(1.0, 'always')\n"
    )
    load_plugin(file)
    load_plugin(file)
    assert get_evaluator("test_mine").evaluate(EvalCase()).score == 1.0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1 / 0\n", r"mine.py: ZeroDivisionError"),
        ("import sys; sys.exit(0)\n", r"mine.py: SystemExit: 0"),
        (None, r"mine\.py: no such Python file"),
    ],
)
def test_a_plugin_file_that_fails_is_named(tmp_path, text, problem):
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    with pytest.raises(OptionError, match=problem):
        load_plugin(tmp_path / "mine.py")


@dataclass(frozen=True, kw_only=True)
class Computed(SyncEvaluator):
    """Scores `score`, or raises it."""

    name: ClassVar[str] = "computed"
    version: ClassVar[str] = "7"
    score: object = 1.0

    def measure(self, case: EvalCase) -> Measurement:
        if isinstance(self.score, BaseException):
            raise self.score
        return Measurement(self.score, "as given")


@dataclass(frozen=True, kw_only=True)
class Awaited(AsyncEvaluator):
    """The same, after giving way to others."""

    name: ClassVar[str] = "awaited"
    needs: ClassVar[tuple[str, ...]] = ("response_text",)
    score: object = 1.0

    async def measure(self, case: EvalCase) -> Measurement:
        await asyncio.sleep(0)
        if isinstance(self.score, BaseException):
            raise self.score
        return Measurement(self.score, "as given")


CASE = EvalCase(response_text="hello")


async def test_results_come_in_the_order_of_the_evaluators_with_name_and_version():
    results = await evaluate(CASE, [Awaited(), Computed(), Computed(id="again", score=0.5)])
    assert [(item.evaluator, item.version, item.score) for item in results] == [
        ("awaited", "1", 1.0),
        ("computed", "7", 1.0),
        ("again", "7", 0.5),
    ]


class Foreign:
    """An evaluator that is derived from nothing of ours, and raises `score`."""

    metric = "foreign"

    def __init__(self, score: BaseException) -> None:
        self.score = score

    def evaluate(self, case: EvalCase) -> EvalResult:
        raise self.score


ENDS = [
    (KeyError("judge"), Status.ERRORED, "KeyError: 'judge'"),
    (SystemExit(0), Status.ERRORED, "SystemExit: 0"),
    (SkipEvaluation("nothing to evaluate"), Status.SKIPPED, "nothing to evaluate"),
    *((score, Status.ERRORED, "ValueError: score") for score in (1.01, -0.1, float("nan"), float("inf"))),
]


@pytest.mark.parametrize(
    ("kind", "score", "status", "reason"),
    [*((kind, *end) for kind in (Computed, Awaited) for end in ENDS), *((Foreign, *end) for end in ENDS[:2])],
)
async def test_one_that_does_not_measure_leaves_a_result_and_the_others_go_on(kind, score, status, reason):
    results = await evaluate(CASE, [kind(score=score), ToolError()])
    assert (results[0].status, results[0].score, results[1].status) == (status, None, Status.PASSED)
    assert results[0].reason.startswith(reason)


async def test_a_missing_input_is_a_skip_that_names_it():
    (result,) = await evaluate(EvalCase(), [Awaited()])
    assert (result.status, result.reason) == (Status.SKIPPED, "not given: response_text")


def test_without_an_event_loop():
    results = evaluate_sync(CASE, [Computed(score=ValueError()), Computed(), Awaited()])
    assert [(item.status, item.reason) for item in results] == [
        (Status.ERRORED, "ValueError"),
        (Status.PASSED, "as given"),
        (Status.ERRORED, "TypeError: it is asynchronous: use `evaluate`"),
    ]


async def test_those_that_wait_wait_side_by_side():
    arrived = asyncio.Barrier(2)

    class Meeting:
        metric = "meeting"

        async def evaluate(self, case: EvalCase) -> EvalResult:
            async with asyncio.timeout(PATIENCE_S), arrived:
                return EvalResult(self.metric, 1.0)

    results = await evaluate(CASE, [Meeting(), Meeting()])
    assert [item.score for item in results] == [1.0, 1.0]


async def test_cancellation_passes_through():
    with pytest.raises(asyncio.CancelledError):
        await evaluate(CASE, [Awaited(score=asyncio.CancelledError())])
