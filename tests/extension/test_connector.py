"""What agent files import: names of our own, and those of arksim where it is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import a2a_tool_capture
import pytest
from support.patience import PATIENCE_S

AGENT = """
from arksim import A2AToolCaptureExtension, AgentResponse, ToolCall
from arksim.config import AgentConfig
from arksim.simulation_engine.agent.base import BaseAgent
from arksim.simulation_engine.tool_types import ToolCallSource


class Orders(BaseAgent):
    def __init__(self, agent_config: AgentConfig) -> None:
        super().__init__(agent_config)

    async def get_chat_id(self) -> str:
        return "chat"

    async def execute(self, user_query: str, **kwargs: object) -> str | AgentResponse:
        call = ToolCall(id="c1", name="look_up", arguments={"order": 1}, result="{}", source=ToolCallSource.OTEL_TRACE)
        return AgentResponse(content=user_query, tool_calls=[call])
"""

INSTALLED = "class AgentConfig:\n    real = True\n"


def run(script: str, *path: Path) -> subprocess.CompletedProcess[str]:
    """In an interpreter of its own: the names stay in a process."""
    paths = ":".join(map(str, [Path(a2a_tool_capture.__file__).parents[1], *path]))
    command = [sys.executable, "-c", f"from a2a_tool_capture.connector.arksim_names import names\n{script}"]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PYTHONPATH": paths}, timeout=PATIENCE_S
    )


@pytest.mark.statement(314, 322, 328)
def test_a_file_written_for_arksim_loads_without_arksim(tmp_path: Path) -> None:
    Path(tmp_path, "orders.py").write_text(AGENT, "utf-8")
    done = run(
        "names.install(); import asyncio, orders\n"
        "agent = orders.Orders(orders.AgentConfig('orders'))\n"
        "print(asyncio.run(agent.execute('hello')).tool_calls[0].to_dict())",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("{'id': 'c1', 'name': 'look_up', 'arguments': {'order': 1}, 'result': '{}'")


def test_an_installed_arksim_takes_precedence(tmp_path: Path) -> None:
    package = tmp_path / "arksim"
    package.mkdir()
    Path(package, "__init__.py").write_text(INSTALLED, "utf-8")
    done = run("names.install()\nfrom arksim import AgentConfig; print(AgentConfig.real)", tmp_path)
    assert done.stdout == "True\n"
    done = run("names.install()\nimport arksim.config", tmp_path)
    assert "No module named 'arksim.config'" in done.stderr
