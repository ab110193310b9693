"""The benchmark, in parts that each print a table, such as traffic and traces.

Run from the repository root: `make bench`, or `make bench ARGS="traces --quick"`. It prints Markdown tables and writes
JSON; it asserts nothing about time. Read the figures as ratios: absolute ones depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from . import procfs
from .part import QUICK, BehaviourError, Plan, Setting, UnavailableTargetError
from .runs import runs
from .targets import ROOT, STAGES, TRAFFIC_TARGETS
from .traces import traces
from .traffic import stages, traffic
from .workers import workers

EXIT_FAILED = 1
EXIT_CANNOT_RUN = 2

PARTS: dict[str, tuple[int, str, Any]] = {
    "traffic": (8, "CPU, latency and memory, compared with nginx and a naive proxy", traffic),
    "stages": (5, "what forwarding, capture, filter, store and scoring each add to a request and an event", stages),
    "traces": (3, "spans received over OTLP", traces),
    "runs": (3, "runs of 1,000 cases x 5 attempts: the CPU time of `run` itself", runs),
    "workers": (4, "turns scored per second by one, two and four workers over PostgreSQL", workers),
}
"""How many minutes each takes on two idle cores, and what it measures."""
TARGETS = tuple(dict.fromkeys(target.name for target in (*TRAFFIC_TARGETS, *STAGES)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, 1 where a target does not work as it should, 2 where something needed is missing."""
    options = _parse(arguments)
    plan = QUICK if options.quick else Plan()
    if options.rounds is not None:
        plan = replace(plan, rounds=options.rounds)
    # 500 streams are 1,000 sockets in a proxy: more than the usual soft limit, which the proxies inherit.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    report: dict[str, Any] = {"plan": asdict(plan), "parts": {}}
    try:
        for name in options.parts or PARTS:
            with tempfile.TemporaryDirectory(prefix="a2a-bench-") as folder:
                setting = Setting(plan, Path(folder), *procfs.split_cpus(), _progress, options.only, options.against)
                report["parts"][name] = measure(name, setting)
    except UnavailableTargetError as error:
        print(f"bench: {error}", file=sys.stderr)
        return EXIT_CANNOT_RUN
    except BehaviourError as error:
        print(f"bench: {error}", file=sys.stderr)
        return EXIT_FAILED
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


def measure(name: str, setting: Setting) -> dict[str, Any]:
    """One part, printed; what is written to JSON."""
    machine, ticks, seconds = procfs.machine(), procfs.ticks(), procfs.own_seconds()
    measured = PARTS[name][2](setting)
    spent = [after - before for before, after in zip(ticks, procfs.ticks(), strict=True)]
    total, ours = sum(spent), (procfs.own_seconds() - seconds) * os.sysconf("SC_CLK_TCK")
    idle = spent[3] + spent[4]
    rounds = "one round" if setting.plan.rounds == 1 else f"medians of {setting.plan.rounds} rounds"
    conditions = (
        f"Revision {revision()}; {machine}; what is measured on CPU {_cpus(setting.subject_cpus)}, all else on CPU "
        f"{_cpus(setting.other_cpus)}; {rounds}; the CPUs were idle for {idle / total:.0%}, other programs took "
        f"{max(0.0, (total - idle - ours) / total):.0%}."
    )
    print(measured.table(), "", conditions, *(f"Note: {warning}." for warning in measured.warnings), "", sep="\n")
    report: dict[str, Any] = measured.report()
    return report | {"conditions": conditions, "warnings": measured.warnings}


def revision() -> str:
    """The commit, with `-dirty` where the working tree differs from it; "unknown" outside a git repository."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    listed = [f"  {name:10}  {minutes:2} min  {text}" for name, (minutes, text, _) in PARTS.items()]
    parser = argparse.ArgumentParser(
        prog="make bench",
        usage='make bench ARGS="[PART ...] [OPTION ...]"',
        description=__doc__.split("\n")[0],
        epilog="\n".join(["parts, and how long each takes without --quick:", *listed]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="default: all; see below")
    parser.add_argument("--quick", action="store_true", help="one short round: a look, no figures to quote")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds, of which medians are taken (default: 3)")
    parser.add_argument(
        "--only",
        type=lambda value: value.split(","),
        metavar="NAMES",
        help=f"for traffic and stages, comma-separated, of {', '.join(TARGETS)}",
    )
    parser.add_argument(
        "--against",
        metavar="REVISION_OR_FOLDER",
        help="for traffic and stages: also measure another revision, or packages in a folder, and compare",
    )
    parser.add_argument("--json", type=Path, default=Path("artifacts/bench.json"), help="default: %(default)s")
    options = parser.parse_args(arguments)
    for given, known in ((options.parts, PARTS), (options.only or (), TARGETS)):
        if unknown := set(given) - set(known):
            parser.error(f"{', '.join(sorted(unknown))}: not one of {', '.join(known)}")
    return options


def _progress(message: str) -> None:
    print(f"bench: {message}", file=sys.stderr, flush=True)


def _cpus(cpus: set[int]) -> str:
    return ", ".join(map(str, sorted(cpus)))


if __name__ == "__main__":
    sys.exit(main())
