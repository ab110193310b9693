"""Runs a2a-tck against an agent, directly and through the proxy: `make conformance ARGS="CHECKOUT"`.

CHECKOUT is a working copy of the kit with what it needs in its `.venv`; its branch says which version of A2A it is for.
Each run has a fresh agent and a fresh proxy. Exit code 0 where no test has an outcome through the proxy that it does
not have without it, and where each request of the proxied runs came through the proxy.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from support.processes import ChildProcess
from support.provision import PINS, python_with
from support.proxy import Proxy

from .arrivals import MARK
from .outcomes import Outcomes, counts, differences, read


@dataclass(frozen=True)
class _Kit:
    """`url` is the option that names the agent, `runs` are arguments of pytest for each transport."""

    agent: str
    url: str
    runs: dict[str, tuple[str, ...]]


_EVERYTHING = ("tests/mandatory", "tests/optional", "--test-scope=all")
_V03 = _Kit(
    "agent_v03",
    "--sut-url",
    {
        **{transport: (*_EVERYTHING, f"--transports={transport}") for transport in ("jsonrpc", "rest", "grpc")},
        "all": ("tests/mandatory/transport", "tests/optional/multi_transport", "--test-scope=all"),
    },
)
_V1 = _Kit(
    "agent_v1",
    "--sut-host",
    {
        transport: ("tests/compatibility", f"--transport={transport}")
        for transport in ("jsonrpc", "http_json", "grpc", "all")
    },
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make conformance", description="a2a-tck, directly and through the proxy.")
    parser.add_argument("checkout", type=Path, help="a working copy of a2a-tck, with its .venv")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each kind; default 2")
    parser.add_argument("--transports", nargs="+", help="only these, by the kit's names; all: all at once")
    parser.add_argument("--reports", type=Path, help="folder to keep the kit's reports and output in")
    options = parser.parse_args(arguments)
    kit = _V1 if (options.checkout / "tests/compatibility").is_dir() else _V03
    unlike = 0
    with ExitStack() as stack:
        reports = options.reports or Path(stack.enter_context(TemporaryDirectory()))
        reports.mkdir(parents=True, exist_ok=True)
        for transport in options.transports or kit.runs:
            runs: dict[str, list[Outcomes]] = {"direct": [], "proxied": []}
            for number in range(options.rounds):
                for how, found in runs.items():
                    report = reports.absolute() / f"{kit.agent}-{transport}-{how}-{number}"
                    checkout, proxied = options.checkout.absolute(), how == "proxied"
                    outcomes, bypassing = _run(kit, transport, checkout, report, proxied=proxied)
                    found.append(outcomes)
                    unlike += bypassing
            unlike += _compared(runs["direct"], runs["proxied"])
    return 1 if unlike else 0


def _compared(direct: Sequence[Outcomes], proxied: Sequence[Outcomes]) -> int:
    """Prints the tests whose outcomes are not the same, and returns how many have outcomes that are new; of the others
    a direct run was alone with its."""
    unlike = 0
    for test, found, seen in differences(direct, proxied):
        is_new = not seen <= found
        unlike += is_new
        print(f"{'DIFFERS' if is_new else 'varies'} {test}")
        for kind, outcomes in (("direct", found), ("proxied", seen)):
            print(*(f"  {kind:8} {outcome}" for outcome in sorted(outcomes)), sep="\n", flush=True)
    return unlike


def _run(kit: _Kit, transport: str, checkout: Path, report: Path, *, proxied: bool) -> tuple[Outcomes, int]:
    """One run of the kit against a fresh agent, with the proxy or without one. And how many requests bypassed it."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        python = python_with(PINS / "a2a-0.3.txt") if kit is _V03 else sys.executable
        with ChildProcess([python, "-m", f"tools.conformance.{kit.agent}", folder / "arrivals"]) as agent:
            upstream = agent.wait_for(r"listening on (\S+)")[1]
            if not proxied:
                return _outcomes(kit, transport, checkout, report, upstream, folder), 0
            options = ("--grpc", "127.0.0.1:0", "--upstream-header", f"{MARK}: 1")
            with Proxy(upstream, folder / "turns.db", *options) as running:
                outcomes = _outcomes(kit, transport, checkout, report, running.url, folder)
                running.flush()
                print(f"  turns: {dict(Counter(turn['binding'] for turn in running.turns()))}", flush=True)
            return outcomes, sum(count for one, count in _arrived(folder).items() if one.endswith(" direct"))


def _outcomes(kit: _Kit, transport: str, checkout: Path, report: Path, url: str, folder: Path) -> Outcomes:
    results = report.with_suffix(".xml")
    command = [checkout / ".venv/bin/python", "-m", "pytest", *kit.runs[transport], "-q", f"{kit.url}={url}"]
    environment = os.environ | {"PYTHONHASHSEED": "0"}  # the kit prints sets
    environment.pop("PYTHONPATH", None)
    with report.with_suffix(".txt").open("w", encoding="utf-8") as log:
        subprocess.run(
            [*command, f"--junitxml={results}"],
            cwd=checkout,
            env=environment,
            stdout=log,
            stderr=log,
            check=False,  # tests of the kit fail with agents that are not what it expects
        )
    outcomes = read(results)
    print(f"{report.name}: {counts(outcomes)}; requests: {dict(_arrived(folder))}", flush=True)
    return outcomes


def _arrived(folder: Path) -> Counter[str]:
    return Counter((folder / "arrivals").read_text("ascii").splitlines())


if __name__ == "__main__":
    sys.exit(main())
