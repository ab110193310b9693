"""The alerts, and what the operations page says of metrics: each exists, and each alert fires when it should."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from a2a_eval_proxy.features.pages.rendering import MEANINGS
from a2a_eval_proxy.store import StoreHealth
from a2a_eval_proxy.store.postgres.work import Backlog
from a2a_eval_proxy.telemetry.counters import CONTAINER, COUNTED, OPEN, STORE, Metrics, Source
from a2a_eval_proxy.telemetry.prometheus import BacklogWatch, process_registry
from deployment.rendering import DEPLOY
from prometheus_client import generate_latest

pytestmark = [pytest.mark.installs, pytest.mark.about("deploy", "proxy/a2a_eval_proxy/telemetry")]

RULES = DEPLOY / "kustomize/components/alerts/prometheus-rule.yaml"
DASHBOARD = DEPLOY / "helm/a2a-eval-proxy/files/dashboard.json"
SERIES = Path(__file__).with_name("alerts.yaml")


@pytest.fixture
def promtool() -> str:
    return shutil.which("promtool") or pytest.skip("promtool is not installed: apt-get install prometheus")


def spec() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(RULES.read_text("utf-8"))["spec"]
    return found


def alerts() -> list[dict[str, Any]]:
    (group,) = spec()["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def exposed() -> str:
    """/metrics, with one series of everything that has labels."""
    metrics = Metrics()
    metrics.otlp_requests["http", "accepted"] = 1
    metrics.calls["a2a_protocol"] = 1
    metrics.findings["capture_error"] = 1
    metrics.evaluations["tool_error", "errored"] = 1
    metrics.turns_failed["agent_error"] = 1
    metrics.responses[200] = 1
    metrics.client_errors["timeout"] = 1
    for counts in (metrics.agent_turns, metrics.agent_failures, metrics.agent_requests):
        counts["orders"] = 1
    backlog = BacklogWatch(waiting)
    with contextlib.suppress(TimeoutError):
        asyncio.run(asyncio.wait_for(backlog.watch(), 0.1))
    of_agents = {"agent_queue_depth": {"orders": 0}, "agent_open_turns": {"orders": 0}}
    proxy = SimpleNamespace(queue_depth=0, open_turns=0, **of_agents)
    sources = [Source(COUNTED, lambda: metrics), Source(OPEN, lambda: proxy), Source(STORE, StoreHealth)]
    sources += [Source(CONTAINER, lambda: SimpleNamespace(used=1, limit=1))]
    return generate_latest(process_registry(*sources, backlog.source)).decode()


async def waiting() -> Backlog:
    return Backlog(turns=1, oldest_s=1.0, workers=1)


@pytest.mark.parametrize("text", [RULES, DASHBOARD], ids=lambda file: file.name)
def test_every_metric_that_is_named_exists(text: Path) -> None:
    known = set(re.findall(r"^(a2a_eval_proxy_\w+)", exposed(), re.MULTILINE))
    named = set(re.findall(r"\ba2a_eval_proxy_\w+", text.read_text("utf-8")))
    assert named, "no metric is named"
    assert named - known - {"a2a_eval_proxy_version"} == set(), "the last is a table"


def test_every_label_and_code_exists() -> None:
    labels = set(re.findall(r"(\w+)=\"", exposed()))
    known = {*MEANINGS, "passed", "failed", "errored", "dropped"}
    for alert in alerts():
        for name, values in re.findall(r"(\w+)=~?\"([^\"]+)\"", alert["expr"]):
            assert name in labels
            assert set(values.split("|")) <= known


def test_prometheus_reads_every_query_of_the_dashboard(promtool: str, tmp_path: Path) -> None:
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    assert len(queries) > 20
    plain = [re.sub(r"\$__\w+", "5m", query).replace("$namespace", ".*") for query in queries]
    rules = [{"record": f"query_{number}", "expr": query} for number, query in enumerate(plain)]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}), "utf-8")
    told = subprocess.run(
        [promtool, "check", "rules", tmp_path / "rules.yaml"], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr


def test_the_page_explains_every_alert() -> None:
    page = (DEPLOY / "README.md").read_text("utf-8")
    assert [alert["alert"] for alert in alerts() if f"`{alert['alert']}`" not in page] == []


def test_each_fires_when_it_should(promtool: str, tmp_path: Path) -> None:
    groups = yaml.safe_load(SERIES.read_text("utf-8"))["tests"]
    tested = {case["alertname"] for group in groups for case in group["alert_rule_test"] if case["exp_alerts"]}
    assert tested == {alert["alert"] for alert in alerts()}
    quiet = {case["alertname"] for case in groups[-1]["alert_rule_test"] if not case["exp_alerts"]}
    assert quiet == tested, "the last group is a proxy that is well"
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(spec()), "utf-8")
    shutil.copy(SERIES, tmp_path)
    told = subprocess.run(
        [promtool, "test", "rules", tmp_path / SERIES.name], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
