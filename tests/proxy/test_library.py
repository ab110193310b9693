"""The program of proxy/docs/testing.md does what the commands do."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

from a2a_eval_proxy.features.demo.agent import run_agent
from support.patience import PATIENCE_S

PAGE = Path(__file__).parents[2] / "proxy/docs/testing.md"
DEMO = Path(__file__).parents[2] / "proxy/a2a_eval_proxy/features/demo/suite.yaml"


async def test_the_library_example_runs(tmp_path: Path) -> None:
    (example,) = (
        block
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
        if "run_suite" in block
    )
    (tmp_path / "suite.yaml").write_bytes(DEMO.read_bytes())
    async with run_agent(weak=False) as url:
        program = example.replace("http://127.0.0.1:9999", url)
        assert program != example
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("0 turns\nTrue\n")
    assert (tmp_path / "report" / "report.html").exists()
    lines = (tmp_path / "turns.jsonl").read_text("utf-8").splitlines()
    assert {json.loads(line)["run"] for line in lines} == {"tuesday"}
