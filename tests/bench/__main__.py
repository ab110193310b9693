"""The benchmark, in parts that each have a table: traffic, traces, evaluators, workers.

Run from the repository root: `make bench`, or `make bench ARGS="traces --quick"`. It prints Markdown tables and writes
JSON; it asserts nothing about time. Read the figures as ratios: absolute ones depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import preflight, procfs
from .compiling import CompilerMissingError
from .load import LoadError
from .part import Part, Setting
from .results import figures
from .revision import fingerprint, revision
from .scoring import SCORING
from .sections import Plan
from .stages import NAMES as STAGE_NAMES
from .stages import stages
from .table import markdown_table, transposed_table
from .targets import PROXIES, TargetUnavailableError
from .traces import TRACES
from .traffic import traffic
from .workers import WORKERS

EXIT_FAILED = 1
EXIT_CANNOT_RUN = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, 1 where a target does not work as it should, 2 where something needed is missing."""
    options = _parse(arguments)
    plan = Plan.quick() if options.quick else Plan()
    wanted = options.parts or PARTS
    only = options.only
    parts = [
        traffic([name for name in PROXIES if not only or name in only]),
        stages([name for name in STAGE_NAMES if not only or name in only], options.against),
        *(TRACES, SCORING, WORKERS),
    ]
    chosen = [part for part in parts if part.name in wanted or (part.name == "stages" and "traffic" in wanted)]
    _allow_many_connections()
    try:
        report = measure(plan, chosen)
    except (CompilerMissingError, TargetUnavailableError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return EXIT_CANNOT_RUN
    except (LoadError, preflight.BehaviourError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return EXIT_FAILED
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    for part in chosen:
        found = report["parts"][part.name]
        print(part_table(part, found["figures"], found["targets"]), "\n")
    for part in chosen:
        shares = report["parts"][part.name]["cpu_shares"]
        print(f"{part.name}: the CPUs were idle for {shares['idle']:.0%}, other programs took {shares['others']:.0%}.")
    print(_machine_line(report), *(f"Note: {warning}." for warning in report["warnings"]), sep="\n")
    return 0


def measure(plan: Plan, parts: Sequence[Part]) -> dict[str, Any]:
    """Each part by itself; the report as it is written to JSON."""
    subject_cpus, other_cpus = procfs.split_cpus()
    machine = procfs.machine()
    measured_revision, sources = revision(), fingerprint()
    found: dict[str, Any] = {}
    warnings: list[str] = []
    for part in parts:
        before = procfs.Use.now()
        with tempfile.TemporaryDirectory(prefix="a2a-bench-") as name:
            measured = part.measure(Setting(plan, Path(name), subject_cpus, other_cpus, _progress))
        found[part.name] = {
            "targets": list(measured.targets),
            "figures": figures(measured.rounds, part.metrics),
            "rounds": measured.rounds,
            "cpu_shares": procfs.Use.now().shares_since(before),
        }
        warnings += measured.warnings
    if fingerprint() != sources:
        warnings.append("the proxy's code changed during the run: its figures mix versions, do not quote them")
    return {
        "revision": measured_revision,
        "machine": machine,
        "plan": asdict(plan),
        "pinned": {"measured": sorted(subject_cpus), "all else": sorted(other_cpus)},
        "parts": found,
        "warnings": warnings,
    }


def part_table(part: Part, found: Mapping[str, dict[str, float]], targets: Sequence[str]) -> str:
    if part.by_target:
        return transposed_table(found, part.metrics, targets, part.baselines)
    return markdown_table(found, part.metrics, targets, part.subject, part.baselines)


PARTS = ("traffic", "stages", "traces", "evaluators", "workers")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", type=_part, help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="one short round: a look, no figures to quote")
    parser.add_argument(
        "--only",
        type=_targets,
        metavar="NAMES",
        help=f"for traffic and stages, comma-separated, of {', '.join(TARGETS)} (default: all)",
    )
    parser.add_argument(
        "--against",
        metavar="REVISION_OR_FOLDER",
        help="for stages: measure another revision, or the packages in a folder, in the same run",
    )
    parser.add_argument("--json", type=Path, default=Path("artifacts/bench.json"), help="default: %(default)s")
    return parser.parse_args(arguments)


def _part(value: str) -> str:
    if value not in PARTS:
        raise argparse.ArgumentTypeError(f"{value!r} is none of {', '.join(PARTS)}")
    return value


TARGETS = tuple(dict.fromkeys((*PROXIES, *STAGE_NAMES)))


def _targets(value: str) -> list[str]:
    names = value.split(",")
    for name in names:
        if name not in TARGETS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(TARGETS)}")
    return names


def _allow_many_connections() -> None:
    """500 streams are 1,000 sockets in a proxy: more than the usual soft limit, which the proxies inherit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _progress(message: str) -> None:
    print(f"bench: {message}", file=sys.stderr, flush=True)


def _machine_line(report: dict[str, Any]) -> str:
    machine, plan, pinned = report["machine"], report["plan"], report["pinned"]
    rounds = "one round" if plan["rounds"] == 1 else f"medians of {plan['rounds']} rounds"
    return (
        f"Revision {report['revision']}; "
        f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, Python {machine['python']}; "
        f"what is measured on CPU {_cpus(pinned['measured'])}, all else on CPU {_cpus(pinned['all else'])}; {rounds}; "
        f"load average at the start {machine['load_average']}."
    )


def _cpus(cpus: Sequence[int]) -> str:
    return ", ".join(map(str, cpus))


if __name__ == "__main__":
    sys.exit(main())
