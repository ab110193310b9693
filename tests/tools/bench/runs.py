"""Whole runs: the CPU time of `run` itself, with an agent that answers at once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from support.prefork import COMMAND

from .part import BehaviourError, Measured, Part, Setting
from .procfs import fixed_loop_ms
from .programs import compile_c, running_agent
from .report import Metric

ALONE, COMPARED = "run", "run --baseline version:1.0.0"
_OWN = "Cases x 5 attempts, 3 evaluators, all forms of the report"
METRICS = (
    Metric("cpu_s", _OWN, "CPU time of run, s"),
    Metric("loops", _OWN, "CPU time in fixed loops of 10,000,000 steps"),
    Metric("peak_mb", _OWN, "peak memory, MB"),
    Metric("report_mb", _OWN, "size of report.html, MB"),
)
ATTEMPTS = 5
_LOOPS = 20  # of half a million steps each


def suite_text(cases: int) -> str:
    """Cases that the agent passes, but for every tenth."""
    head = f"suite: many\nevaluators: [tool_trajectory, tool_error, contains]\nrepeat: {ATTEMPTS}\ncases:\n"
    calls = (
        "{name: lookup_order, arguments: {order_id: ORD-1001}}, "
        "{name: estimate_delivery, arguments: {carrier: DHL, zone: ZONE}}"
    )
    lines = (
        f"  - id: case-{number}\n    turns:\n      - user: Where is order {number}?\n        expect:\n"
        f"          tool_calls: [{calls.replace('ZONE', '3' if number % 10 == 9 else '2')}]\n"
        "          response_contains: warehouse\n"
        for number in range(cases)
    )
    return head + "".join(lines)


def _measure(setting: Setting) -> Measured:
    measured = Measured([ALONE, COMPARED])
    agent = compile_c("upstream", setting.folder)
    suite = setting.folder / "many.yaml"
    suite.write_text(suite_text(setting.plan.cases))
    with running_agent(agent, setting.other_cpus) as port:
        for number in range(1, setting.plan.rounds + 1):
            values = measured.next_round()
            for target, options in ((ALONE, ()), (COMPARED, ("--baseline", "version:1.0.0"))):
                setting.progress(f"round {number} of {setting.plan.rounds}: {target}")
                report = setting.folder / f"report-{number}-{len(options)}"
                run = [COMMAND, "run", str(suite), "--agent", f"http://127.0.0.1:{port}", "--no-streaming"]
                run += ["--store", str(setting.folder / "turns.db"), "--run", report.name, "--report", str(report)]
                loop_s = _LOOPS * fixed_loop_ms(setting.subject_cpus) / 1000
                cpu_s, peak_mb = cost([*run, "--quiet", *options], setting.plan.cases * ATTEMPTS, report)
                report_mb = (report / "report.html").stat().st_size / 1e6
                values[target] |= {
                    "cpu_s": cpu_s, "loops": cpu_s / loop_s, "peak_mb": peak_mb, "report_mb": report_mb
                }  # fmt: skip
    return measured


def cost(command: list[str], turns: int, report: Path) -> tuple[float, float]:
    """CPU seconds and peak memory in MB of a run that fails by its cases. Raises BehaviourError for another one."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        said = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 1 or f"{turns:,} turns" not in said or not (report / "report.html").exists():
        raise BehaviourError(f"{' '.join(command)} ended with {process.returncode}: {said[-500:]}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


RUNS = Part("runs", METRICS, ALONE, (), _measure)
