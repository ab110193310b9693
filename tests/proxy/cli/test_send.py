"""`send`: its exit code says whether the agent's task failed."""

from __future__ import annotations

import pytest
from a2a_eval_proxy.cli import main
from agents.scenario_agent import scenario_agent


@pytest.mark.parametrize(("text", "code", "ends_with"), [("artifact now", 0, "completed"), ("fail now", 1, "failed")])
def test_the_exit_code_is_that_of_the_task(
    text: str, code: int, ends_with: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with scenario_agent() as agent:
        monkeypatch.setattr("sys.argv", ["a2a-eval-proxy", "send", text, "--agent", agent.url])
        with pytest.raises(SystemExit) as ended:
            main()
    assert (ended.value.code or 0) == code
    assert f"\n{ends_with}, " in capsys.readouterr().out
