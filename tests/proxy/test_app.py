"""What a proxy says when it starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from a2a_eval_proxy.app import run_proxy
from a2a_eval_proxy.settings.settings import Settings


@pytest.mark.parametrize(("evaluate", "model", "warned"), [(True, "", True), (True, "m", False), (False, "", False)])
async def test_a_judge_without_a_model_is_missed_at_the_start(
    evaluate: bool, model: str, warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch
) -> None:
    monkeypatch.setenv("A2A_EVAL_PROXY_JUDGE_MODEL", model)
    monkeypatch.setenv("A2A_EVAL_PROXY_JUDGE_BASE_URL", "http://127.0.0.1:1/v1")
    suite = tmp_path / "suite.yaml"
    suite.write_text("suite: x\nevaluators: [tool_error, helpfulness]")
    settings = Settings(
        upstream="http://127.0.0.1:1",
        store=str(tmp_path / "turns.db"),
        suite=str(suite),
        listen="127.0.0.1:0",
        admin="127.0.0.1:0",
        otlp=None,
        evaluate=evaluate,
    )
    async with run_proxy(settings):
        pass
    warnings = [record.getMessage() for record in caplog.records if "a judge is needed" in record.getMessage()]
    assert len(warnings) == warned
    assert all("helpfulness: no model is configured" in warning for warning in warnings)
