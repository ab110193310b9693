"""`--no-judge-cache`: the judge is asked again, by `evaluate` as by `run`."""

from __future__ import annotations

from pathlib import Path

import pytest
from agents.serving import ServerThread
from judges.fake_api import KEY, MODEL, FakeApi
from support.commands import run
from support.stored_runs import store_turns
from support.turn_samples import turn


@pytest.mark.parametrize(("flags", "asked"), [([], [1, 1]), (["--no-judge-cache"], [1, 2])])
def test_stored_turns_are_judged_again_where_that_is_wanted(tmp_path: Path, flags: list[str], asked: list[int]) -> None:
    store_turns(tmp_path / "turns.db", [turn("1", case="a")], "monday")
    api = FakeApi()
    requests = []
    with ServerThread(api.app) as server:
        suite = tmp_path / "suite.yaml"
        suite.write_text(f"""
suite: judged
judge: {{model: {MODEL}, base_url: "{server.url}/v1"}}
evaluators: [{{helpfulness: {{threshold: 1}}}}]
cases: [{{id: a, turns: [{{user: "Where is my order?"}}]}}]
""")
        for _ in asked:
            command = ("evaluate", "--store", tmp_path / "turns.db", "--suite", suite, *flags)
            done = run(*command, A2A_EVAL_PROXY_JUDGE_API_KEY=KEY)
            assert done.returncode == 0, done.stdout + done.stderr
            requests.append(len(api.requests))
    assert requests == asked
