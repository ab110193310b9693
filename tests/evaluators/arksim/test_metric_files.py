"""Files of custom metrics written for arksim, loaded and run as they are."""

from __future__ import annotations

import asyncio
import textwrap
from dataclasses import replace

import pytest
from a2a_tool_capture.models import ToolCall, ToolCallSource
from judges.fake_api import says, served
from tool_call_evaluators import (
    EvalCase,
    OptionError,
    Status,
    evaluate,
    evaluator_class,
    get_evaluator,
)
from tool_call_evaluators.judge import PreparedJudge
from tool_call_evaluators.plugins import load_plugin

FILE = '''
"""Metrics of a bank's agent, in the form that arksim's documentation shows."""

from __future__ import annotations

from pydantic import BaseModel

from arksim.evaluator import (
    QualitativeMetric, QualResult, QuantitativeMetric, QuantResult, ScoreInput, format_chat_history,
)


class ClaritySchema(BaseModel):
    jargon_avoidance: float
    comprehension_check: float
    reason: str


class ClarityMetric(QuantitativeMetric):
    def __init__(self, llm: object | None = None) -> None:
        super().__init__(name="clarity", score_range=(0, 5), description="Plain words.", llm=llm, scope="turn")

    def score(self, score_input: ScoreInput) -> QuantResult:
        found: ClaritySchema = self.llm.call(
            [
                {"role": "system", "content": "Score how clear the agent is."},
                {"role": "user", "content": f"Conversation:\\n{format_chat_history(score_input.chat_history)}"},
            ],
            schema=ClaritySchema,
        )
        value = (found.jargon_avoidance + found.comprehension_check) / 2 * 5
        return QuantResult(name=self.name, value=value, reason=found.reason, metadata={"checked": True})


class LabelSchema(BaseModel):
    label: str
    reason: str


class ProhibitedStatements(QualitativeMetric):
    def __init__(self, llm=None):
        super().__init__(name="prohibited_statements", label_colors={"violated": "#ef4444"}, llm=llm)

    def evaluate(self, score_input: ScoreInput) -> QualResult:
        prompt = f"Goal: {score_input.user_goal}. {format_chat_history(score_input.current_turn)}"
        found = self.llm.call(prompt, schema=LabelSchema)
        return QualResult(name=self.name, value=found.label, reason=found.reason)


class NeedsAssessment(QuantitativeMetric):
    """Needs no model."""

    def __init__(self):
        super().__init__(name="needs_assessment", scope="conversation", additional_input={"least": 2})

    def score(self, score_input):
        asked = sum("?" in message.content for message in score_input.chat_history if message.role == "assistant")
        least = score_input.model_extra["least"]
        return QuantResult(name=self.name, value=5 if asked >= least else 1, reason=f"{asked} questions")


class Bare(QualitativeMetric):
    def evaluate(self, score_input):
        from arksim.evaluator import QualResult as Lazy

        given = score_input
        return Lazy(name="Bare", value=f"{given.profile}|{given.knowledge}|{[call.name for call in given.tool_calls]}")


class Asked(QualitativeMetric):
    def __init__(self) -> None:
        super().__init__(name="Asked", description="Arguments.")

    def evaluate(self, score_input: ScoreInput) -> QualResult:
        return QualResult(name=self.name, value=str([call.arguments for call in score_input.tool_calls]))


class _Hidden(QualitativeMetric):
    def evaluate(self, score_input):
        raise AssertionError


class Unfinished(QuantitativeMetric):
    pass
'''

METRICS = ("Asked", "Bare", "clarity", "needs_assessment", "prohibited_statements")

TURN = EvalCase(
    user_text="What do I get?",
    response_text="Seven percent, guaranteed. Anything else?",
    user_goal="Invest.",
    knowledge="Nothing is guaranteed.",
    profile="Cautious.",
    tool_calls=[{"name": "lookup_fund", "arguments": {"id": 7}}],
    history=[EvalCase(user_text="Hello", response_text="What may I do for you?")],
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "custom_metrics.py"
    path.write_text(FILE)
    return path


@pytest.fixture
def loaded(file):
    load_plugin(file)


async def score(name, case=TURN, **options):
    (result,) = await evaluate(case, [get_evaluator(name, **options)])
    return result


CLEAR = {"jargon_avoidance": 1, "comprehension_check": 0.5, "reason": "No check."}


@pytest.mark.statement(86, 98)
def test_every_public_metric_of_a_file_is_an_evaluator(file):
    assert load_plugin(file) == METRICS
    assert load_plugin(file) == METRICS, "a file is run once, and still names its metrics"
    assert evaluator_class("clarity").__doc__ == "Plain words."
    assert evaluator_class("needs_assessment").__doc__ == "Needs no model."


@pytest.mark.usefixtures("loaded")
@pytest.mark.statement(89, 90, 91, 93, 97)
def test_scope_and_range_are_those_that_the_metric_declares():
    assert [evaluator_class(name).scope for name in METRICS] == ["turn", "turn", "turn", "conversation", "turn"]
    assert evaluator_class("clarity").scale == (0, 5)
    assert evaluator_class("needs_assessment").scale == (1, 5)


@pytest.mark.statement(142)
@pytest.mark.parametrize(("score_range", "threshold"), [((0, 5), 3), ((1, 5), 3), ((0, 1), 0.6), ((4, 5), 4)])
def test_a_score_passes_from_sixty_percent_of_the_top_of_its_range_on(file, score_range, threshold):
    file.write_text(FILE.replace("score_range=(0, 5)", f"score_range={score_range}"))
    load_plugin(file)
    assert get_evaluator("clarity").threshold == pytest.approx(threshold)
    assert get_evaluator("clarity", threshold=None).threshold is None


@pytest.mark.usefixtures("loaded")
@pytest.mark.statement(92, 96)
async def test_a_metric_asks_the_judge_as_its_llm():
    judge = PreparedJudge([CLEAR])
    result = await score("clarity", judge=judge)
    assert (result.score, result.status, result.reason) == (3.75, Status.PASSED, "No check.")
    assert (result.scale, result.label) == ((0, 5), None)
    assert result.details["metadata"] == {"checked": True}
    assert (result.details["judge"]["requests"], result.details["judge"]["prompt"]) == (1, "clarity@1")
    system, user = judge.questions[0].messages()
    assert system == {"role": "system", "content": "Score how clear the agent is."}
    assert user["content"].startswith(
        "Conversation:\nuser: Hello\nassistant: What may I do for you?\nuser: What do I get?\nassistant: Seven percent"
    )
    assert '"required": ["jargon_avoidance", "comprehension_check", "reason"]' in user["content"]


@pytest.mark.usefixtures("loaded")
@pytest.mark.statement(94, 95, 100, 101)
async def test_a_label_needs_no_score():
    judge = PreparedJudge([{"label": "violated", "reason": "Guaranteed."}])
    result = await score("prohibited_statements", judge=judge)
    assert (result.label, result.score, result.status) == ("violated", None, Status.SCORED)
    (asked,) = judge.questions[0].messages()
    assert asked["content"].startswith(
        "Goal: Invest.. user: What do I get?\nassistant: Seven percent, guaranteed. Anything else?\n\n\nAnswer with"
    )


@pytest.mark.usefixtures("loaded")
@pytest.mark.statement(99, 104)
async def test_a_conversation_is_scored_as_a_whole_with_the_further_input_of_the_metric():
    whole = EvalCase(turns=[*TURN.history, TURN], user_goal="Invest.")
    found = await score("needs_assessment", whole)
    assert (found.score, found.reason, found.details["band"]) == (5, "2 questions", "Excellent")
    assert (await score("needs_assessment", EvalCase(turns=[TURN]))).score == 1
    assert (await score("needs_assessment", EvalCase(turns=[]))).reason == "the conversation has no turns"


@pytest.mark.usefixtures("loaded")
@pytest.mark.statement(102, 103, 104)
async def test_knowledge_profile_and_calls_are_given_and_imports_may_be_late():
    assert (await score("Bare")).label == "Cautious.|Nothing is guaranteed.|['lookup_fund']"


@pytest.mark.statement(339)
async def test_a_metric_filters_calls_by_their_source(tmp_path):
    file = tmp_path / "by_source.py"
    file.write_text("""
from arksim.evaluator import QualitativeMetric, QualResult

class BySource(QualitativeMetric):
    def __init__(self, llm=None):
        super().__init__(name="by_source", llm=llm)

    def evaluate(self, score_input):
        traced = [call.name for call in score_input.tool_calls if call.source == "otel_trace"]
        return QualResult(name=self.name, value=f"{traced} {score_input.tool_calls[0].source.value}")
""")
    load_plugin(file)
    calls = [ToolCall("a", {}, source=ToolCallSource.A2A_PROTOCOL), ToolCall("b", source=ToolCallSource.OTEL_TRACE)]
    assert (await score("by_source", replace(TURN, tool_calls=calls))).label == "['b'] a2a_protocol"


@pytest.mark.usefixtures("loaded")
async def test_calls_that_are_unknown_are_not_shown_as_none():
    unseen = EvalCase(user_text="a", response_text="b", calls_unseen="the calls are unknown")
    blind = await score("Bare", unseen)
    assert (blind.status, blind.label, blind.reason) == (Status.SKIPPED, "calls_unseen", "the calls are unknown")
    judge = PreparedJudge([{"label": "clean", "reason": ""}])
    assert (await score("prohibited_statements", unseen, judge=judge)).label == "clean", "it reads no calls"


@pytest.mark.usefixtures("loaded")
async def test_arguments_that_are_unknown_are_not_shown_as_none():
    call = ToolCall("lookup_fund", None, "c1", "found")
    assert (await score("Bare", replace(TURN, tool_calls=[call]))).label.endswith("['lookup_fund']"), "it reads names"
    blind = await score("Asked", replace(TURN, tool_calls=[ToolCall("lookup_fund", {"fund": 1}), call]))
    assert (blind.status, blind.label) == (Status.SKIPPED, "calls_unseen")
    assert blind.reason == "the arguments of lookup_fund: not seen"
    assert (await score("Asked", replace(TURN, tool_calls=[ToolCall("lookup_fund")]))).label == "[{}]"


async def test_without_a_judge_only_what_asks_one_is_errored(file, monkeypatch):
    monkeypatch.delenv("A2A_EVAL_PROXY_JUDGE_MODEL", raising=False)
    load_plugin(file)
    assert (await score("clarity")).reason.startswith("JudgeNotConfiguredError: no judge is configured")
    assert (await score("Bare")).status is Status.SCORED


@pytest.mark.usefixtures("loaded")
async def test_votes_repeat_a_metric_that_asks_the_judge():
    judge = PreparedJudge([{"label": label, "reason": label} for label in ("clean", "violated", "violated")])
    result = await score("prohibited_statements", judge=judge, votes=3)
    assert (result.label, result.reason) == ("violated", "violated")
    assert result.details["votes"] == ["clean", "violated", "violated"]
    assert (result.details["judge"]["votes"], result.details["judge"]["requests"]) == (3, 3)
    assert [question.vote for question in judge.questions] == [0, 1, 2]
    assert (await score("Bare", votes=3)).details == {}


async def test_what_a_metric_returns_may_be_no_measurement(file):
    file.write_text(FILE.replace("value=5 if asked >= least else 1", "value=asked - 3 if asked < 3 else 7"))
    load_plugin(file)
    skipped = await score("needs_assessment", EvalCase(turns=[TURN]))
    assert (skipped.status, skipped.reason) == (Status.SKIPPED, "1 questions (-2)")
    three = EvalCase(turns=[TURN, TURN, TURN])
    assert (await score("needs_assessment", three)).reason == "ValueError: score 7.0 is outside the scale 1 to 5"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("def __init__(self, llm=None):", r"ProhibitedStatements cannot be created: .*'limit'.*need defaults"),
        ('name="clarity"', "evaluator tool_error: already registered"),
        ("format_chat_history,", "cannot import name 'Evaluator' from 'arksim.evaluator'"),
    ],
)
def test_what_cannot_be_loaded_is_named(file, text, complaint):
    other = {
        "def __init__(self, llm=None):": "def __init__(self, limit, llm=None):",
        'name="clarity"': 'name="tool_error"',
        "format_chat_history,": "format_chat_history, Evaluator,",
    }[text]
    file.write_text(FILE.replace(text, other, 1))
    with pytest.raises(OptionError, match=rf"custom_metrics\.py: .*{complaint}"):
        load_plugin(file)


@pytest.mark.statement(96)
def test_the_llm_of_a_metric_over_http(file):
    """A strict API accepts the schema; text without a schema works as well, and from a thread of the metric's own."""
    text = """
    class Texts(QualitativeMetric):
        def __init__(self, llm=None):
            super().__init__(name="texts", llm=llm)
        def evaluate(self, score_input):
            import asyncio
            from concurrent.futures import ThreadPoolExecutor
            with ThreadPoolExecutor() as pool:
                first = pool.submit(self.llm.call, "Say a word.").result()
            second = asyncio.run(self.llm.call_async([{"role": "user", "content": "Another."}]))
            return QualResult(name=self.name, value=f"{first}, {second}")
    """
    file.write_text(FILE + textwrap.dedent(text))
    load_plugin(file)

    def choose(request):
        wanted = request["response_format"]["json_schema"]["schema"]["required"]
        return says(CLEAR if "reason" in wanted else {"answer": f"word {request['messages'][-1]['content'][0]}"})

    with served(choose) as (judge, _):
        clarity = asyncio.run(score("clarity", judge=judge))
        texts = asyncio.run(score("texts", judge=judge))
    assert (clarity.score, clarity.details["judge"]["prompt_tokens"]) == (3.75, 100)
    assert texts.label == "word S, word A"
    assert texts.details["judge"]["requests"] == 2
