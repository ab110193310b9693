"""Whole runs: the CPU time of `run` itself, with an agent that answers at once."""

from __future__ import annotations

import os
import subprocess

from support.prefork import COMMAND

from .part import BehaviourError, Measured, Metric, Setting
from .procfs import fixed_loop_ms
from .programs import compile_c, running_agent

TARGETS = {"run": (), "run --baseline version:1.0.0": ("--baseline", "version:1.0.0")}
_OWN = "Cases x 5 attempts, 3 evaluators, all forms of the report"
METRICS = (
    Metric("cpu_s", _OWN, "CPU time of run, s"),
    Metric("loops", _OWN, "CPU time in fixed loops of 10,000,000 steps"),
    Metric("peak_mb", _OWN, "peak memory, MB"),
    Metric("report_mb", _OWN, "size of report.html, MB"),
)
ATTEMPTS = 5
_LOOPS = 20  # of half a million steps each
_HEAD = f"suite: many\nevaluators: [tool_trajectory, tool_error, contains]\nrepeat: {ATTEMPTS}\ncases:\n"
_CASE = """\
  - id: case-{number}
    turns:
      - user: Where is order {number}?
        expect:
          tool_calls:
            - {{name: lookup_order, arguments: {{order_id: ORD-1001}}}}
            - {{name: estimate_delivery, arguments: {{carrier: DHL, zone: {zone}}}}}
          response_contains: warehouse
"""


def runs(setting: Setting) -> Measured:
    """The agent passes all cases but every tenth."""
    measured, cases = Measured(METRICS, [*TARGETS]), setting.plan.cases
    suite, store = setting.folder / "many.yaml", setting.folder / "turns.db"
    suite.write_text(_HEAD + "".join(_CASE.format(number=n, zone=3 if n % 10 == 9 else 2) for n in range(cases)))
    with running_agent(compile_c("upstream", setting.folder), setting.other_cpus) as port:
        for number in range(1, setting.plan.rounds + 1):
            values = measured.next_round()
            for target, options in TARGETS.items():
                setting.progress(f"round {number} of {setting.plan.rounds}: {target}")
                report = setting.folder / f"report-{number}-{len(options)}"
                command = [COMMAND, "run", suite, "--agent", f"http://127.0.0.1:{port}", "--no-streaming", "--quiet"]
                command += ["--store", store, "--run", report.name, "--report", report, *options]
                loop_s = _LOOPS * fixed_loop_ms(setting.subject_cpus) / 1000
                with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                    said = process.stdout.read()
                    _, status, used = os.wait4(process.pid, 0)
                    process.returncode = os.waitstatus_to_exitcode(status)
                if process.returncode != 1 or f"{cases * ATTEMPTS:,} turns" not in said:  # it fails by its cases
                    raise BehaviourError(f"{target} ended with {process.returncode}: {said[-500:]}")
                cpu_s = used.ru_utime + used.ru_stime
                values[target] = {"cpu_s": cpu_s, "loops": cpu_s / loop_s, "peak_mb": used.ru_maxrss / 1024}
                values[target]["report_mb"] = (report / "report.html").stat().st_size / 1e6
    return measured
