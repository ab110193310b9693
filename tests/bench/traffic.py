"""Traffic: the proxy against the direct call, nginx and a naive proxy, all in front of the same agent."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from . import preflight
from .agent import running_agent
from .compiling import compile_c
from .load import LoadGenerator
from .part import Measured, Part, Setting
from .sections import SECTIONS, Bench
from .targets import DIRECT, Running, running


def traffic(proxies: Sequence[str]) -> Part:
    """The part, for the direct call and the proxies named."""
    metrics = tuple(metric for section in SECTIONS for metric in section.metrics)
    return Part("traffic", metrics, "proxy", ("nginx", "naive"), lambda setting: _measure(setting, [DIRECT, *proxies]))


def _measure(setting: Setting, targets: Sequence[str]) -> Measured:
    """Every section for every target in turn, round after round."""
    folder, plan = setting.folder, setting.plan
    bench = Bench(LoadGenerator(compile_c("load", folder), setting.other_cpus), plan)
    measured = Measured(targets)
    with running_agent(compile_c("upstream", folder), setting.other_cpus) as agent_port:

        def started(target: str) -> AbstractContextManager[Running]:
            return running(target, agent_port, Path(tempfile.mkdtemp(dir=folder)), setting.subject_cpus)

        for target in targets:
            setting.progress(f"looking whether {target} works")
            with started(target) as process:
                preflight.check(process, bench.load)
        for number in range(1, plan.rounds + 1):
            measured.rounds.append({target: {} for target in targets})
            for target in targets:
                for section in SECTIONS:
                    setting.progress(f"round {number} of {plan.rounds}: {target}, {section.name}")
                    with started(target) as process:
                        measured.rounds[-1][target] |= section.measure(process, bench)
    measured.warnings = list(dict.fromkeys(bench.warnings))
    return measured
