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
from collections.abc import Sequence
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
from .table import markdown_table
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
    parts = [traffic(options.only), TRACES, SCORING, WORKERS]
    chosen = [part for part in parts if part.name in (options.parts or PARTS)]
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
        print(markdown_table(found["figures"], part.metrics, found["targets"], part.subject, part.baselines), "\n")
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
        with tempfile.TemporaryDirectory(prefix="a2a-bench-") as name:
            measured = part.measure(Setting(plan, Path(name), subject_cpus, other_cpus, _progress))
        found[part.name] = {
            "targets": list(measured.targets),
            "figures": figures(measured.rounds, part.metrics),
            "rounds": measured.rounds,
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


PARTS = ("traffic", "traces", "evaluators", "workers")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", type=_part, help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="one short round: a look, no figures to quote")
    parser.add_argument(
        "--only",
        type=_proxies,
        default=list(PROXIES),
        metavar="NAMES",
        help=f"for traffic, comma-separated, of {', '.join(PROXIES)} (default: all); "
        "the direct call is always measured",
    )
    parser.add_argument("--json", type=Path, default=Path("artifacts/bench.json"), help="default: %(default)s")
    return parser.parse_args(arguments)


def _part(value: str) -> str:
    if value not in PARTS:
        raise argparse.ArgumentTypeError(f"{value!r} is none of {', '.join(PARTS)}")
    return value


def _proxies(value: str) -> list[str]:
    names = value.split(",")
    for name in names:
        if name not in PROXIES:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(PROXIES)}")
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
