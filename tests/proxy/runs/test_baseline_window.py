"""Baselines of several runs: those of an agent version, which a run is compared with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from a2a_eval_proxy.runs import stored_turns
from a2a_eval_proxy.runs.compare import compare_runs
from a2a_eval_proxy.runs.drive import AgentOptions, run_suite
from a2a_eval_proxy.runs.stored_turns import UnknownRunError, check_baseline
from a2a_eval_proxy.store import TurnQuery, every_turn, open_store
from a2a_eval_proxy.turn import Turn
from support.turn_samples import result, turn
from tool_call_evaluators.attempts import attempt_seed
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
        self._made = 0

    async def add(self, run: str, card: dict[str, str] | None = OF_SHOP, **cases: str) -> None:
        """`cases`: the outcomes of the attempts at a case, `+`, `-`, or `!` for a judge that is down."""
        made = []
        for case, outcomes in cases.items():
            for outcome in outcomes:
                self._made += 1
                said = {"+": GOOD, "-": BAD, "!": result("tool_error", None, status="errored")}[outcome]
                data = turn(f"{run}-{self._made}", evaluations=[said], case=case, start=self._made, conversation="c")
                data |= {"run": run, "agent_card": card, "conversation_id": f"{case}-{self._made}"}
                made.append((Turn.from_dict(data), [said]))
        await self._store(made)

    async def serve(self, run: str, versions: str, *, per_conversation: int = 1) -> None:
        """A run of `serve`: a turn of the case a passed with each version, several of which are a conversation."""
        made = []
        for index, version in enumerate(versions):
            data = turn(f"{run}-{index}", str(index % per_conversation), evaluations=[GOOD], case="a", start=index)
            card = None if version == "?" else {"name": "shop", "version": version}
            conversation = f"{run}/{index // per_conversation}"
            made.append(
                (Turn.from_dict(data | {"run": run, "agent_card": card, "conversation_id": conversation}), [GOOD])
            )
        await self._store(made)

    async def _store(self, made: Sequence[tuple[Turn, list[dict[str, object]]]]) -> None:
        store = open_store(self.location)
        for one, said in made:
            store.add([one], lambda: None, {one.turn_id: said})
        await store.drained()
        await asyncio.to_thread(store.close)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


async def test_a_run_names_the_version_of_its_agent_and_each_attempt_has_a_seed(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    agent, location = AgentOptions(f"python:{tmp_path / 'agent.py'}"), str(tmp_path / "turns.db")
    await run_suite(parse_suite(SUITE), agent, location, "one", seed=7, agent_version="2.0")
    await run_suite(parse_suite(SUITE), agent, location, "two")
    store = open_store(location)
    turns = [item async for item in every_turn(store, TurnQuery())]
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
    await asyncio.to_thread(store.close)


async def test_of_a_run_in_which_the_agent_changed_the_conversations_of_the_version_count(runs: Runs) -> None:
    await runs.serve("live", "33??4455", per_conversation=2)
    await runs.serve("moved", "345", per_conversation=3)
    await runs.serve("before", "3333", per_conversation=2)
    await runs.add("now", {"name": "shop", "version": "5"}, a="+++")
    passed = {}
    for version in "35":
        comparison = await compare_runs(runs.location, f"version:{version}", "now")
        assert comparison.baseline is not None
        passed[version, comparison.baseline.runs] = {case.case: case.passed[0] for case in comparison.cases}
    assert passed == {
        ("3", ("before", "moved", "live")): {"a": (3, 3)},
        ("5", ("moved", "live")): {"a": (1, 1)},
    }
    with pytest.raises(UnknownRunError, match="versions 3, 5"):  # the ends of a run say which versions it has
        await check_baseline(runs.location, "version:4", "now")


async def test_the_runs_of_a_version_are_compared_together(runs: Runs) -> None:
    for number in range(4):
        await runs.add(f"night-{number}", a="+++", b="++-")
    await runs.add("other", {"name": "shop", "version": "1.3"}, a="---")
    await runs.add("bank", {"name": "bank", "version": "1.4"}, a="---")
    await runs.add("now", {"name": "shop", "version": "1.5"}, a="+++", b="+-+")
    comparison = await compare_runs(runs.location, "version:1.4", "now")
    assert comparison.baseline is not None
    assert comparison.baseline.runs == ("night-3", "night-2", "night-1", "night-0")
    assert {case.case: case.passed for case in comparison.cases} == {"a": ((12, 12), (3, 3)), "b": ((8, 12), (2, 3))}
    assert comparison.before == "version 1.4"
    again = await compare_runs(runs.location, "version:1.4", "night-3")
    assert again.baseline is not None
    assert again.baseline.runs == ("night-2", "night-1", "night-0"), "a run is no evidence about itself"


async def test_a_new_case_advises_until_it_has_three_attempts(runs: Runs) -> None:
    await runs.add("night-0", old="+++", new="++")
    await runs.add("now", old="+++", new="--")
    comparison = await compare_runs(runs.location, "version:1.4", "now")
    assert {case.case: case.status for case in comparison.cases} == {"old": "same", "new": "new"}
    assert not comparison.fails_on(["newly-failing"])
    await runs.add("night-1", old="+++", new="!+")
    comparison = await compare_runs(runs.location, "version:1.4", "now")
    assert {case.case: case.status for case in comparison.cases} == {"old": "same", "new": "newly_failing"}
    assert comparison.fails_on(["newly-failing"])


async def test_a_version_without_runs_is_refused_with_those_there_are(runs: Runs) -> None:
    await runs.add("plain", None, a="+")
    with pytest.raises(UnknownRunError, match=r"no run of a known version.*--agent-version"):
        await check_baseline(runs.location, "version:1.4", None)
    await runs.add("night", a="+")
    with pytest.raises(UnknownRunError, match=r"version '1\.44' \(did you mean 1\.4\?\); the store has versions 1\.4"):
        await check_baseline(runs.location, "version:1.44", None)
    with pytest.raises(UnknownRunError, match=r"version ''"):
        await check_baseline(runs.location, "version:", None)
    with pytest.raises(UnknownRunError, match="no earlier run"):
        await check_baseline(runs.location, "version:1.4", "night")
    await check_baseline(runs.location, "plain", None)


async def test_the_newest_runs_of_many_are_the_window(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        await runs.add(f"night-{number}", a="+-")
    await runs.add("now", a="+")
    comparison = await compare_runs(runs.location, "version:1.4", "now")
    assert comparison.baseline is not None
    assert (len(comparison.baseline.runs), comparison.baseline.older) == (stored_turns.MOST_BASELINE_RUNS, 10)
    assert comparison.baseline.runs[0] == "night-29"
    assert "Compared with 20 runs of version 1.4; 10 older runs not." in comparison_text(comparison)
    monkeypatch.setattr(stored_turns, "_MOST_BASELINE_TURNS", 5)
    comparison = await compare_runs(runs.location, "version:1.4", "now")
    assert comparison.baseline is not None
    assert comparison.baseline.runs == ("night-29", "night-28")
