"""The benchmark, in parts that each print a table, such as traffic and traces.

Run from the repository root: `make bench`, or `make bench ARGS="traces --quick"`. It prints Markdown tables and writes
JSON; it asserts nothing about time. Read the figures as ratios: absolute ones depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from . import procfs
from .grpc_calls import grpc_part
from .hostility import KINDS, hostile
from .part import BehaviourError, Part, Plan, Setting
from .profile import ProfilePart
from .programs import CompilerMissingError, LoadError
from .revision import UnknownRevisionError, fingerprint, revision
from .runs import RUNS
from .scoring import SCORING
from .stages import stages
from .targets import STAGES, TRAFFIC_TARGETS, TargetUnavailableError
from .traces import TRACES
from .traffic import traffic
from .workers import WORKERS

EXIT_FAILED = 1
EXIT_CANNOT_RUN = 2


PARTS = {
    "traffic": (
        10,
        "CPU, latency and memory, compared with nginx, the floor and a naive proxy; then the stages",
    ),
    "stages": (3, "what forwarding, capture, filter, store and scoring each add to the CPU of a request and an event"),
    "profile": (1, "the functions that the CPU of an exchange and of an event goes to, by thread"),
    "traces": (3, "spans received over OTLP, compared with decoding them"),
    "evaluators": (4, "turns scored per second, compared with the evaluators of other packages"),
    "runs": (3, "runs of 1,000 cases x 5 attempts: the CPU time of `run` itself"),
    "workers": (4, "turns scored per second by one, two and four workers over PostgreSQL"),
    "grpc": (3, "calls over gRPC, compared with direct ones, and memory for clients that do not read"),
    "hostile": (5, "latency of 39 agents, and memory, while the fortieth hangs, floods, resets or closes"),
}
"""What each measures, and how many minutes that takes on two idle cores."""

NOT_BY_DEFAULT = ("profile",)
TARGETS = tuple(dict.fromkeys(target.name for target in (*TRAFFIC_TARGETS, *STAGES)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, 1 where a target does not work as it should, 2 where something needed is missing."""
    options = _parse(arguments)
    plan = Plan.quick() if options.quick else Plan()
    if options.rounds is not None:
        plan = replace(plan, rounds=options.rounds)
    parts = _chosen(options)
    _allow_many_connections()
    try:
        report = measure(plan, parts)
    except (CompilerMissingError, TargetUnavailableError, UnknownRevisionError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return EXIT_CANNOT_RUN
    except (LoadError, BehaviourError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return EXIT_FAILED
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


def _chosen(options: argparse.Namespace) -> list[Part | ProfilePart]:
    wanted = set(options.parts or PARTS.keys() - NOT_BY_DEFAULT)
    if "traffic" in wanted:
        wanted.add("stages")
    only = options.only or TARGETS
    parts = [
        traffic(only),
        stages(only, options.against),
        ProfilePart(options.only or ["scoring"], options.against),
        *(TRACES, SCORING, RUNS, WORKERS, grpc_part(options.against), hostile(options.kinds)),
    ]
    return [part for part in parts if part.name in wanted]


def measure(plan: Plan, parts: Sequence[Part | ProfilePart]) -> dict[str, Any]:
    """Each part alone, printed as it is done; the report as it is written to JSON."""
    subject_cpus, other_cpus = procfs.split_cpus()
    report: dict[str, Any] = {
        "revision": revision(),
        "machine": procfs.machine(),
        "plan": asdict(plan),
        "pinned": {"measured": sorted(subject_cpus), "all else": sorted(other_cpus)},
        "parts": {},
    }
    sources = fingerprint()
    for part in parts:
        before = procfs.Use.now()
        with tempfile.TemporaryDirectory(prefix="a2a-bench-") as name:
            measured = part.measure(Setting(plan, Path(name), subject_cpus, other_cpus, _progress))
        if fingerprint() != sources:
            measured.warnings.append(
                "the proxy's code changed during the run: its figures mix versions, do not quote them"
            )
        shares = procfs.Use.now().shares_since(before)
        report["parts"][part.name] = part.report(measured) | {"cpu_shares": shares, "warnings": measured.warnings}
        print(part.table(measured), "", _machine_line(report, shares), sep="\n")
        print(*(f"Note: {warning}." for warning in measured.warnings), "", sep="\n", flush=True)
    return report


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    width = max(map(len, PARTS))
    listed = [f"  {name:{width}}  {minutes:2} min  {text}" for name, (minutes, text) in PARTS.items()]
    parser = argparse.ArgumentParser(
        prog="make bench",
        usage='make bench ARGS="[PART ...] [OPTION ...]"',
        description=__doc__.split("\n")[0],
        epilog="\n".join(["parts, and how long each takes without --quick:", *listed]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", type=_one_of(PARTS), help="default: all, except profile; see below"
    )
    parser.add_argument("--quick", action="store_true", help="one short round: a look, no figures to quote")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds, of which medians are taken (default: 3)")
    parser.add_argument(
        "--only",
        type=lambda value: [_one_of(TARGETS)(name) for name in value.split(",")],
        metavar="NAMES",
        help=f"for traffic, stages and profile, comma-separated, of {', '.join(TARGETS)}",
    )
    parser.add_argument(
        "--against",
        metavar="REVISION_OR_FOLDER",
        help="for stages, profile and grpc: also measure another revision, or packages in a folder, and compare",
    )
    parser.add_argument(
        "--kinds",
        type=lambda value: [_one_of(KINDS)(name) for name in value.split(",")],
        default=list(KINDS),
        metavar="NAMES",
        help=f"for hostile, comma-separated, of {', '.join(KINDS)}",
    )
    parser.add_argument("--json", type=Path, default=Path("artifacts/bench.json"), help="default: %(default)s")
    return parser.parse_args(arguments)


def _one_of(names: Collection[str]) -> Callable[[str], str]:
    def check(value: str) -> str:
        if value not in names:
            raise argparse.ArgumentTypeError(f"{value!r} is not one of {', '.join(names)}")
        return value

    return check


def _allow_many_connections() -> None:
    """500 streams are 1,000 sockets in a proxy: more than the usual soft limit, which the proxies inherit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _progress(message: str) -> None:
    print(f"bench: {message}", file=sys.stderr, flush=True)


def _machine_line(report: dict[str, Any], shares: dict[str, float]) -> str:
    machine, plan, pinned = report["machine"], report["plan"], report["pinned"]
    rounds = "one round" if plan["rounds"] == 1 else f"medians of {plan['rounds']} rounds"
    return (
        f"Revision {report['revision']}; "
        f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, Python {machine['python']}; "
        f"what is measured on CPU {_cpus(pinned['measured'])}, all else on CPU {_cpus(pinned['all else'])}; {rounds}; "
        f"load average at the start {machine['load_average']}; "
        f"the CPUs were idle for {shares['idle']:.0%}, other programs took {shares['others']:.0%}."
    )


def _cpus(cpus: Sequence[int]) -> str:
    return ", ".join(map(str, cpus))


if __name__ == "__main__":
    sys.exit(main())
