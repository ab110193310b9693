"""`repeat: {times, pass}`: attempts at a case end once it is decided if enough pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from a2a_eval_proxy.runs.drive import AgentOptions, run_suite
from a2a_eval_proxy.runs.run_result import RunResult, RunWatch
from a2a_eval_proxy.runs.stored_turns import open_existing_store
from tool_call_evaluators.report.figures import attempts, attempts_text
from tool_call_evaluators.suite import parse_suite

AGENT = """
from collections import Counter

ATTEMPTS = Counter()

class Agent:
    async def execute(self, user_query, **options):
        # the answers to "CASE yes no yes", attempt by attempt, are these words
        case, *answers = user_query.split()
        ATTEMPTS[case] += 1
        return answers[(ATTEMPTS[case] - 1) % len(answers)]
"""

SUITE = """
suite: flaky
evaluators: [contains]
cases:
  - {id: two, repeat: {times: 3, pass: 2}, turns: [{user: two yes yes no, expect: {response_contains: yes}}]}
  - {id: one, repeat: {times: 5, pass: 4}, turns: [{user: one no yes no yes, expect: {response_contains: yes}}]}
  - {id: late, repeat: {times: 4, pass: 2}, turns: [{user: late no yes no yes, expect: {response_contains: yes}}]}
"""


class Setting:
    def __init__(self, folder: Path) -> None:
        (folder / "agent.py").write_text(AGENT)
        self._agent = AgentOptions(f"python:{folder / 'agent.py'}", concurrency=2)
        self._store = str(folder / "turns.db")

    async def run(self, *, resume: bool = False, repeat_all: bool = False, watch: RunWatch | None = None) -> RunResult:
        suite = parse_suite(SUITE.replace("contains: yes", 'contains: "yes"'))
        return await run_suite(
            suite, self._agent, self._store, "night", resume=resume, repeat_all=repeat_all, watch=watch
        )

    async def discard(self, *turn_ids: str) -> None:
        async with open_existing_store(self._store) as store:
            store.discard(turn_ids, lambda: None)


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path)


def made(result: RunResult) -> dict[str, tuple[int, int, int]]:
    return {case.case_id: (case.passed, case.failed, case.planned) for case in attempts(result.report)}


async def test_attempts_end_once_they_decide(setting: Setting) -> None:
    watch = RunWatch()
    result = await setting.run(watch=watch)
    assert made(result) == {"two": (2, 0, 3), "one": (1, 2, 5), "late": (2, 2, 4)}
    assert [reason.message for reason in result.verdict.reasons if reason.code == "too_few_passed"] == [
        "one #3: 1 of 3 attempts at the case passed, and 4 must pass"
    ]
    assert {reason.case_id for reason in result.verdict.reasons} == {"one"}
    assert {reason.case_id for reason in result.verdict.tolerated} == {"late"}
    assert (watch.planned, watch.done) == (12, 12)
    assert "further rates are not estimable, as 3 cases may end early" in attempts_text(attempts(result.report))


async def test_all_attempts_are_made_where_it_is_asked_for(setting: Setting) -> None:
    result = await setting.run(repeat_all=True)
    assert {case: (passed, failed) for case, (passed, failed, _) in made(result).items()} == {
        "two": (2, 1),
        "one": (2, 3),
        "late": (2, 2),
    }
    assert {reason.case_id for reason in result.verdict.reasons} == {"one"}
    rate = (2 / 3 + 2 / 5 + 2 / 4) / 3
    assert f"pass@1 {rate:.2f}" in attempts_text(attempts(result.report)), "all attempts were made: no early end"
    assert "not estimable" not in attempts_text(attempts(result.report))


async def test_resuming_makes_the_attempts_that_still_matter(setting: Setting) -> None:
    first = await setting.run()
    turns = [turn for item in first.report.conversations for turn in item.executed]
    lost = next(turn["turn_id"] for turn in turns if turn["case_id"] == "two")
    await setting.discard(lost)
    watch = RunWatch()
    again = await setting.run(resume=True, watch=watch)
    assert made(again) == made(first) | {"two": (2, 1, 3)}, "the third answer, then the first"
    assert watch.planned == watch.done == 2, "the two attempts at the case of which one is lost"
