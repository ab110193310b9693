"""From turns and whole conversations to results, by the evaluators in force; and the thread that computes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from a2a_tool_capture import ToolCall
from a2a_tool_capture.recent import Recent
from a2a_tool_capture.wire import FAILED_STATES
from tool_call_evaluators.agent_tree import AgentTurn, calls_of_all
from tool_call_evaluators.evaluator import EvaluatorBase, evaluate, evaluate_sync, is_built_in
from tool_call_evaluators.judge.budget import JudgeBudget, spending
from tool_call_evaluators.judge.cache import JudgeCache, judged_apart
from tool_call_evaluators.metrics.conversation_scores import evaluate_conversation
from tool_call_evaluators.model import CALLS_UNSEEN, ENDED_AS_EXPECTED, EvalCase, EvalResult
from tool_call_evaluators.outcomes.conversations import ConversationTurn, follow
from tool_call_evaluators.resources import resources_in, resources_of
from tool_call_evaluators.suite import Case, EvaluatorSpec, Suite
from tool_call_evaluators.suite.model import CALL_FIELDS, NO_HISTORY
from tool_call_evaluators.visibility import (
    AGENT_UNREACHABLE,
    HISTORY_LOST,
    TURN_SUCCEEDED,
    approvals_in,
    calls_in,
    turn_result,
    visibility_in,
)

from ..errors import UNREACHABLE
from ..privacy.redactor import lacks_content
from ..turn import Turn
from .case_book import MAX_REGISTERED, CaseBook

T = TypeVar("T")

TurnJson = Mapping[str, Any]
"""A turn as in /api/turns."""

Results = list[dict[str, Any]]

NO_TREES: Mapping[str, AgentTurn] = {}

WITHOUT_SUITE = Suite(name="", evaluators=(EvaluatorSpec("tool_error"),))
"""What is scored without a suite: evaluators that need no expectation."""

MAX_EARLIER, MAX_HISTORY = 200, 50
"""Of a conversation, how many turns before a turn are read to find its place in its case, and how many of these
evaluators receive."""

_INVALIDATED = "the simulated user invalidated the conversation"
_UNREACHABLE = "the agent could not be reached: an answer that did not come is not an empty one"
_SHOWS_NOTHING = {
    AGENT_UNREACHABLE: _UNREACHABLE,
    HISTORY_LOST: "the agent did not continue the conversation of the given history",
}
"""By the finding of a turn, why it is not scored."""
_NO_EARLIER = "the turns before it could not be read"
_NO_CONTENT = "the turn was stored without its content (--no-content), so it cannot be evaluated"


@dataclass(frozen=True, slots=True)
class Evaluators:
    """Those in force for a case, or for turns without one, and what they take."""

    turn: Sequence[EvaluatorBase]
    conversation: Sequence[EvaluatorBase]
    is_cheap: bool
    """Whether those for turns are built in and only compute, which takes microseconds."""
    reads_earlier: bool
    """Whether turns are scored in the light of those before them."""
    reads_trees: bool
    """Whether an evaluator of either scope, or what the case says of its calls, needs the turns that a turn caused. A
    turn waits for these, so that a conversation need not."""
    is_quick: bool
    """Whether scoring a small turn takes microseconds: nothing has to be read for it, and no regular expression is
    matched and no statement parsed, which may take a second for the text of a hostile agent."""


class Scorer:
    """Scores turns and conversations with the evaluators of the suite, or of their case where it has its own."""

    def __init__(
        self,
        cases: CaseBook,
        suite: Suite | None,
        judge_cache: JudgeCache | None = None,
        judge_budget: JudgeBudget | None = None,
    ) -> None:
        self._judge_budget = judge_budget
        self._cases = cases
        self._suite = suite or WITHOUT_SUITE
        self._judge_cache = judge_cache
        self._shared = self._in_force(None)
        self._of_cases: Recent[str, tuple[Case, Evaluators]] = Recent(MAX_REGISTERED)
        self._without_case = Case(id="", turns=()).completed(self._suite)

    def evaluators(self, case_id: str | None) -> Evaluators:
        """The evaluators in force for turns of that case. They are built once."""
        case = self._cases.case(case_id) if case_id else None
        if case is None:
            return self._shared
        known = self._of_cases.get(case.id)
        if known is None or known[0] is not case:  # a registered case may be replaced
            known = self._of_cases[case.id] = case, self._in_force(case)
        return known[1]

    async def score(
        self, turn: Turn, earlier: Sequence[TurnJson] | None = (), tree: AgentTurn | None = None
    ) -> Results:
        """Results for a turn, as they may be stored. It waits for judges alone.

        `earlier` are the last turns of its conversation before it, if its evaluators read them (None: they cannot be
        read), and `tree` is the turn with those that it caused, if they read that.

        A turn of the history that its case gives has none. One that the agent failed, or whose case says in which state
        it ends, has a result of its own, `turn_succeeded`. Never raises for what an agent sent or an evaluator did: it
        becomes an `errored` result.
        """
        if self._cases.is_given(turn):
            return []
        in_force = self.evaluators(turn.case_id)
        evaluators = in_force.turn
        case = self._case_or_errors(turn, earlier, evaluators, tree)
        if isinstance(case, list):
            results = case
        elif in_force.is_cheap:
            results = evaluate_sync(case, evaluators)
        else:
            with self.as_sample(turn.case_id, turn.conversation_id):
                results = await evaluate(case, evaluators)
        place = self._cases.place_in_case(turn.case_id, earlier or ())
        expected = self._cases.states_of(turn, place) if turn.case_id else ()
        if turn.state in expected and turn.state in FAILED_STATES and isinstance(case, EvalCase):
            results = [_excused(*each, case) for each in zip(results, evaluators, strict=True)]
        own = turn_result(turn.state, turn.response_text, turn.findings, expected)
        return self._cases.privacy.stored_results(_json(results if own is None else [own, *results]))

    async def score_conversation(
        self, turns: Sequence[TurnJson], trees: Mapping[str, AgentTurn] = NO_TREES
    ) -> Results | None:
        """Results for the turns of one conversation and one case (or none), as a whole, as they may be stored. `trees`:
        as for `score`, by the ids of turns.

        None where it is not over: a planned turn has not come, or one is not scored yet. Raises nothing else than
        `score` does.
        """
        whole = self.whole_case(turns, trees)
        if not isinstance(whole, EvalCase):
            return whole and self._cases.privacy.stored_results(whole)
        case_id = turns[0]["case_id"]
        with self.as_sample(case_id, turns[0]["conversation_id"]):
            found = await evaluate_conversation(whole, self.evaluators(case_id).conversation)
        return self._cases.privacy.stored_results(_json(found.results))

    def whole_case(
        self, turns: Sequence[TurnJson], trees: Mapping[str, AgentTurn] = NO_TREES
    ) -> EvalCase | Results | None:
        """What the evaluators receive of a conversation; its results where they receive nothing; None where it is not
        over."""
        if not turns:
            return None
        case_id = turns[0]["case_id"]
        case = self._cases.case(case_id) or self._without_case if case_id else self._without_case
        plan = Suite(name="", cases=(case.held(1),)) if case is not self._without_case else None
        (conversation,) = follow(turns, plan)
        if not conversation.complete or any(turn.turn and turn.turn["status"] != "done" for turn in conversation.turns):
            return None
        if any(lacks_content(turn["user_text"]) for turn in turns):
            return self.conversation_errors(case_id, _NO_CONTENT)
        evaluators = self.evaluators(case_id)
        if conversation.invalid or conversation.unreachable:
            why = _INVALIDATED if conversation.invalid else _UNREACHABLE
            return _json(EvalResult.skipped(item.metric, why) for item in evaluators.conversation)
        try:
            return case.conversation_case(
                [self._seen(case, placed, evaluators.turn, trees) for placed in conversation.turns],
                history=[_past(turn.turn) for turn in conversation.given if turn.turn],
                world=_world(turns[-1].get("world"), "case"),
            )
        except Exception as error:  # noqa: BLE001  # error boundary: an agent may send anything
            return self.conversation_errors(case_id, f"the conversation does not fit its case: {error}")

    @contextmanager
    def as_sample(self, case_id: str | None, conversation_id: str) -> Iterator[None]:
        """Context in which a conversation, where it is one of several repetitions, has answers of the judge of its
        own, and requests to judges are within the budget."""
        case = self._cases.case(case_id) if case_id else None
        apart = conversation_id if case is not None and case.conversations > 1 else ""
        with judged_apart(apart), spending(self._judge_budget):
            yield

    def conversation_errors(self, case_id: str | None, reason: str) -> Results:
        """Results of a conversation that could not be evaluated."""
        return _json(EvalResult.errored(item.metric, reason) for item in self.evaluators(case_id).conversation)

    def in_force(self, turn: TurnJson) -> TurnJson:
        """The turn with the results of the evaluators in force: others are of another suite."""
        metrics = {TURN_SUCCEEDED, *(evaluator.metric for evaluator in self.evaluators(turn["case_id"]).turn)}
        return {**turn, "evaluations": [item for item in turn["evaluations"] if item["evaluator"] in metrics]}

    def eval_case(self, turn: Turn, earlier: Sequence[TurnJson] = (), tree: AgentTurn | None = None) -> EvalCase:
        """What the evaluators receive of a turn; see `score`. Raises ValueError for malformed calls."""
        recent = earlier[-MAX_HISTORY:]
        past = [_past(item) for item in recent if not lacks_content(item["user_text"])] if recent else ()
        unseen, approvals = turn.visibility.unknown, approvals_in(turn.approvals, turn.state)
        resources = resources_of(turn.started_at, turn.first_event_at, turn.ended_at, turn.usage)
        case = self._cases.case(turn.case_id) if turn.case_id else None
        if case is None:
            calls: Sequence[ToolCall] = turn.tool_calls
            if self._without_case.depth == "all":
                calls, unseen = calls_of_all(calls, unseen, tree)
            return EvalCase(
                tool_calls=calls,
                calls_unseen=unseen,
                approvals=approvals,
                tree=tree,
                tools=self._suite.tools,
                user_text=turn.user_text,
                response_text=turn.response_text,
                history=past,
                resources=resources,
                tool_classes=self._without_case.tool_classes,
                prices=self._suite.prices,
            )
        return case.eval_case(
            case.turn_index(turn.user_text, self._cases.place_in_case(turn.case_id, earlier), turn.agent_name),
            tool_calls=turn.tool_calls,
            calls_unseen=unseen,
            approvals=approvals,
            response_text=turn.response_text,
            user_text=turn.user_text,
            history=past,
            resources=resources,
            tree=tree,
            world=_world(turn.world, "turn"),
        )

    def _in_force(self, case: Case | None) -> Evaluators:
        def built(scope: Any) -> Sequence[EvaluatorBase]:
            return tuple(self._suite.build_evaluators(scope, case, judge_cache=self._judge_cache))

        if case is None or case.evaluators is not None:
            of_turns, of_conversations = built("turn"), built("conversation")
        else:
            of_turns, of_conversations = self._shared.turn, self._shared.conversation
        expected = repr((case, of_turns))
        cheap = "$same" not in expected and all(is_built_in(type(one)) and not one.is_async for one in of_turns)
        has_several = case is not None and (
            len(case.turns) > 1 or case.simulate is not None or case.given != NO_HISTORY
        )
        depth = self._suite.depth if case is None else case.depth
        trees = depth == "all" or any({"tree", "trees"} & {*item.needs} for item in (*of_turns, *of_conversations))
        patterns = any(name in expected for name in ("$regex", "$sql")) or any(
            item.name == "tool_call_validity" or getattr(item, "error_detector", None) for item in of_turns
        )
        return Evaluators(
            of_turns,
            of_conversations,
            cheap,
            reads_earlier=has_several or not cheap,
            reads_trees=trees,
            is_quick=cheap and not (patterns or has_several or trees),
        )

    def _case_or_errors(
        self,
        turn: Turn,
        earlier: Sequence[TurnJson] | None,
        evaluators: Sequence[EvaluatorBase],
        tree: AgentTurn | None,
    ) -> EvalCase | list[EvalResult]:
        if lacks_content(turn.user_text):
            return [EvalResult.errored(evaluator.metric, _NO_CONTENT) for evaluator in evaluators]
        for code, why in _SHOWS_NOTHING.items() if turn.findings else ():
            if any(finding.code == code for finding in turn.findings):
                return [EvalResult.skipped(evaluator.metric, why) for evaluator in evaluators]
        if earlier is None:
            return [EvalResult.errored(evaluator.metric, _NO_EARLIER) for evaluator in evaluators]
        try:
            return self.eval_case(turn, earlier, tree)
        except Exception as error:  # noqa: BLE001  # error boundary: an agent may send anything
            reason = f"the turn does not fit its case: {error}"
            return [EvalResult.errored(evaluator.metric, reason) for evaluator in evaluators]

    def _seen(
        self,
        case: Case,
        placed: ConversationTurn,
        evaluators: Sequence[EvaluatorBase],
        trees: Mapping[str, AgentTurn],
    ) -> EvalCase:
        turn = placed.turn or {}
        metrics = {evaluator.metric for evaluator in evaluators}
        seen = case.eval_case(
            placed.index,
            tool_calls=calls_in(turn),
            calls_unseen=visibility_in(turn).unknown,
            approvals=approvals_in(turn.get("approvals"), turn["state"]),
            response_text=turn["response_text"],
            user_text=turn["user_text"],
            resources=resources_in(turn),
            tree=trees.get(turn["turn_id"]),
            world=_world(turn.get("world"), "turn"),
        )
        return replace(seen, results=tuple(result for result in placed.results if result.evaluator in metrics))


def in_its_case(turn: TurnJson, moved: Mapping[str, str]) -> TurnJson:
    """The turn, with the case of which `moved` says that it belongs to it."""
    case_id = moved.get(turn["turn_id"])
    return turn if case_id is None else {**turn, "case_id": case_id}


def _world(seen: Mapping[str, Any] | None, after: str) -> Mapping[str, Any] | None:
    return (seen or {}).get(after)


def _past(turn: TurnJson) -> EvalCase:
    return EvalCase(
        user_text=turn["user_text"],
        response_text=turn["response_text"],
        tool_calls=calls_in(turn),
        calls_unseen=visibility_in(turn).unknown,
        approvals=approvals_in(turn.get("approvals"), turn["state"]),
    )


def _excused(result: EvalResult, evaluator: EvaluatorBase, case: EvalCase) -> EvalResult:
    """The result of an evaluator of calls in a turn that failed as expected: where nothing is expected of the calls,
    those that were perhaps lost with the answer are not missed."""
    reads = {*evaluator.needs, *(evaluator.reads or ()), evaluator.criterion}.intersection(CALL_FIELDS)
    expects = any(getattr(case, name) is not None or getattr(evaluator, name, None) is not None for name in reads)
    if result.label != CALLS_UNSEEN or expects or not is_built_in(type(evaluator)):
        return result
    return replace(result, label=ENDED_AS_EXPECTED)


def _json(results: Iterable[EvalResult]) -> Results:
    return list(map(EvalResult.to_dict, results))


# ── not on the event loop of traffic ────────────────────────────────────────────────────────────────────────

Call = Callable[[Scorer], Awaitable[T]]
"""What is asked of a scorer: a `methodcaller`, so that it can be sent to another process."""


class ExecutorLostError(Exception):
    """The executor cannot be reached any more; the message says which one, and why."""

    exit_code = UNREACHABLE


class ScoringExecutor(Protocol):
    """Asks a scorer elsewhere."""

    batch: int
    """Calls to be given at a time, so that nobody waits for work."""

    async def ask(self, calls: Sequence[Call[T]]) -> list[T]:
        """What each returns, concurrently. May raise ExecutorLostError: nothing is scored after that."""

    def close(self) -> None:
        """Blocks until nothing runs any more."""


class ThreadExecutor:
    """Scores in one thread, which has an event loop for judges, so that traffic continues."""

    batch = 200

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scoring")
        self._runner = asyncio.Runner()
        self._waiting: asyncio.Task[Any] | None = None
        """What the event loop runs."""

    async def ask(self, calls: Sequence[Call[T]]) -> list[T]:
        async def run() -> list[T]:
            self._waiting = asyncio.current_task()
            try:
                return await gathered(call(self._scorer) for call in calls)
            finally:
                self._waiting = None

        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._runner.run(run()))

    def close(self) -> None:
        if (waiting := self._waiting) is not None:  # for a judge, which may take its time
            waiting.get_loop().call_soon_threadsafe(waiting.cancel)
        self._thread.submit(self._runner.close)
        self._thread.shutdown(wait=True)


def at_once(results: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that waits for nothing."""
    try:
        results.send(None)
    except StopIteration as returned:
        value: T = returned.value
        return value
    results.close()
    raise RuntimeError("an evaluator waits that only computes")


async def gathered(results: Iterable[Awaitable[T]]) -> list[T]:
    """The results, which are awaited side by side."""
    return await asyncio.gather(*results)
