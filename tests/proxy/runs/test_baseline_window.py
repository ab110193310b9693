"""Baselines of several runs: those of an agent version, which a run is compared with."""

from __future__ import annotations

from pathlib import Path

import pytest
from a2a_eval_proxy.runs import stored_turns
from a2a_eval_proxy.runs.compare import compare_runs
from a2a_eval_proxy.runs.drive import AgentOptions, run_suite
from a2a_eval_proxy.runs.stored_turns import UnknownRunError, check_baseline
from support.stored_runs import store_turns
from support.stored_runs import stored_turns as kept
from support.turn_samples import result, turn
from tool_call_evaluators.attempts import attempt_seed
from tool_call_evaluators.outcomes.comparison import Comparison
from tool_call_evaluators.report import comparison_text
from tool_call_evaluators.suite import parse_suite

AGENT = """
class Agent:
    async def execute(self, user_query, seed=None):
        return f"yes {seed}"
"""
SUITE = """
suite: s
evaluators: [contains]
repeat: {times: 2}
cases: [{id: a, turns: [{user: hi, expect: {response_contains: "yes"}}]}]
"""
OF_SHOP = {"name": "shop", "version": "1.4"}
GOOD, BAD = result("tool_error", 1.0), result("tool_error", 0.0)


class Runs:
    """A store that a test fills with runs."""

    def __init__(self, folder: Path) -> None:
        self.location = str(folder / "turns.db")
        self.made = 0

    def add(self, run: str, card: dict[str, str] | None = OF_SHOP, **cases: str) -> None:
        """`cases`: the outcomes of the attempts at a case, `+`, `-`, or `!` for a judge that is down."""
        turns = []
        for case, outcome in ((case, outcome) for case, outcomes in cases.items() for outcome in outcomes):
            self.made += 1
            said = {"+": GOOD, "-": BAD, "!": result("tool_error", None, status="errored")}[outcome]
            whole = {"run": run, "agent_card": card, "conversation": f"{case}-{self.made}"}
            turns.append(turn(f"{run}-{self.made}", evaluations=[said], case=case, start=self.made, **whole))
        store_turns(Path(self.location), turns)

    def serve(self, run: str, versions: str, *, per_conversation: int = 1) -> None:
        """A run of `serve`: a turn of the case a passed with each version, several of which are a conversation."""
        turns = []
        for index, version in enumerate(versions):
            card = None if version == "?" else {"name": "shop", "version": version}
            whole = {"run": run, "agent_card": card, "conversation": f"{run}/{index // per_conversation}"}
            text = str(index % per_conversation)
            turns.append(turn(f"{run}-{index}", text, evaluations=[GOOD], case="a", start=index, **whole))
        store_turns(Path(self.location), turns)

    async def compared(self, baseline: str, run: str = "now") -> tuple[Comparison, tuple[str, ...]]:
        """The comparison, and the runs of the baseline."""
        comparison = await compare_runs(self.location, baseline, run)
        assert comparison.baseline is not None
        return comparison, comparison.baseline.runs


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


async def test_a_run_names_the_version_of_its_agent_and_each_attempt_has_a_seed(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    agent, location = AgentOptions(f"python:{tmp_path / 'agent.py'}"), str(tmp_path / "turns.db")
    await run_suite(parse_suite(SUITE), agent, location, "one", seed=7, agent_version="2.0")
    await run_suite(parse_suite(SUITE), agent, location, "two")
    turns = await kept(location)
    seeds = {number: attempt_seed(7, "a", number) for number in (1, 2)}
    assert {item["response_text"]: item["attempt"] for item in turns if item["run"] == "one"} == {
        f"yes {seed}": {"number": number, "planned": 2, "enough": None, "seed": seed} for number, seed in seeds.items()
    }
    assert len({*seeds.values()}) == 2
    assert {(item["run"], (item.get("agent_card") or {}).get("version")) for item in turns} == {
        ("one", "2.0"),
        ("two", None),  # the card of a Python agent is ours
    }
    assert {item["response_text"] for item in turns if item["run"] == "two"} == {"yes None"}


async def test_of_a_run_in_which_the_agent_changed_the_conversations_of_the_version_count(runs: Runs) -> None:
    runs.serve("live", "33??4455", per_conversation=2)
    runs.serve("moved", "345", per_conversation=3)
    runs.serve("before", "3333", per_conversation=2)
    runs.add("now", {"name": "shop", "version": "5"}, a="+++")
    passed = {}
    for version in "35":
        comparison, before = await runs.compared(f"version:{version}")
        passed[version, before] = {case.case: case.passed[0] for case in comparison.cases}
    assert passed == {
        ("3", ("before", "moved", "live")): {"a": (3, 3)},
        ("5", ("moved", "live")): {"a": (1, 1)},
    }
    with pytest.raises(UnknownRunError, match="versions 3, 5"):  # the ends of a run say which versions it has
        await check_baseline(runs.location, "version:4", "now")


async def test_the_runs_of_a_version_are_compared_together(runs: Runs) -> None:
    for number in range(4):
        runs.add(f"night-{number}", a="+++", b="++-")
    runs.add("other", {"name": "shop", "version": "1.3"}, a="---")
    runs.add("bank", {"name": "bank", "version": "1.4"}, a="---")
    runs.add("now", {"name": "shop", "version": "1.5"}, a="+++", b="+-+")
    comparison, before = await runs.compared("version:1.4")
    assert before == ("night-3", "night-2", "night-1", "night-0")
    assert {case.case: case.passed for case in comparison.cases} == {"a": ((12, 12), (3, 3)), "b": ((8, 12), (2, 3))}
    assert comparison.before == "version 1.4"
    _, before = await runs.compared("version:1.4", "night-3")
    assert before == ("night-2", "night-1", "night-0"), "a run is no evidence about itself"


async def test_a_new_case_advises_until_it_has_three_attempts(runs: Runs) -> None:
    runs.add("now", old="+++", new="--")
    for night, new, status in (("night-0", "++", "new"), ("night-1", "!+", "newly_failing")):
        runs.add(night, old="+++", new=new)
        comparison, _ = await runs.compared("version:1.4")
        assert {case.case: case.status for case in comparison.cases} == {"old": "same", "new": status}
        assert comparison.fails_on(["newly-failing"]) is (status == "newly_failing")


async def test_a_version_without_runs_is_refused_with_those_there_are(runs: Runs) -> None:
    runs.add("plain", None, a="+")
    with pytest.raises(UnknownRunError, match=r"no run of a known version.*--agent-version"):
        await check_baseline(runs.location, "version:1.4", None)
    runs.add("night", a="+")
    for baseline, run, said in (
        ("version:1.44", None, r"version '1\.44' \(did you mean 1\.4\?\); the store has versions 1\.4"),
        ("version:", None, "version ''"),
        ("version:1.4", "night", "no earlier run"),
    ):
        with pytest.raises(UnknownRunError, match=said):
            await check_baseline(runs.location, baseline, run)
    await check_baseline(runs.location, "plain", None)


async def test_the_newest_runs_of_many_are_the_window(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_turns, "MOST_BASELINE_RUNS", 3)
    for number in range(5):
        runs.add(f"night-{number}", a="+-")
    runs.add("now", a="+")
    comparison, before = await runs.compared("version:1.4")
    assert before == ("night-4", "night-3", "night-2")
    assert "Compared with 3 runs of version 1.4; 2 older runs not." in comparison_text(comparison)
    monkeypatch.setattr(stored_turns, "MOST_BASELINE_TURNS", 5)
    assert (await runs.compared("version:1.4"))[1] == ("night-4", "night-3")
