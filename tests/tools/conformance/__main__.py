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
from support.proxy import COMMAND, Proxy

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
    parser.add_argument("--proxy", type=Path, default=COMMAND, help="the a2a-eval-proxy to test")
    options = parser.parse_args(arguments)
    kit = _V1 if (options.checkout / "tests/compatibility").is_dir() else _V03
    unlike = 0
    with ExitStack() as stack:
        reports = options.reports or Path(stack.enter_context(TemporaryDirectory()))
        reports.mkdir(parents=True, exist_ok=True)
        for transport in options.transports or kit.runs:
            runs: dict[bool, list[Outcomes]] = {False: [], True: []}
            for number in range(options.rounds):
                for proxied in (False, True):
                    name = f"{kit.agent}-{transport}-{'proxied' if proxied else 'direct'}-{number}"
                    run = _Run(kit, transport, options.checkout.absolute(), reports.absolute() / name)
                    runs[proxied].append(run.through(options.proxy) if proxied else run.directly())
                    unlike += run.bypassing
            unlike += _compared(runs[False], runs[True])
    return 1 if unlike else 0


def _compared(direct: Sequence[Outcomes], proxied: Sequence[Outcomes]) -> int:
    """Prints the tests whose outcomes are not the same, and returns how many have outcomes that are new."""
    found = list(differences(direct, proxied))
    for difference in found:
        print(f"{'DIFFERS' if difference.new else 'varies'} {difference.test}")
        for kind, outcomes in (("direct", difference.direct), ("proxied", difference.proxied)):
            print(*(f"  {kind:8} {outcome}" for outcome in outcomes), sep="\n", flush=True)
    return sum(difference.new for difference in found)


@dataclass
class _Run:
    """One run of the kit against a fresh agent. `bypassing`: how many of its requests should have been proxied."""

    kit: _Kit
    transport: str
    checkout: Path
    report: Path
    bypassing: int = 0

    def directly(self) -> Outcomes:
        with TemporaryDirectory() as folder, self._agent(Path(folder)) as agent:
            return self._outcomes(_url(agent), Path(folder))

    def through(self, command: Path) -> Outcomes:
        options = ("--grpc", "127.0.0.1:0", "--upstream-header", f"{MARK}: 1")
        with TemporaryDirectory() as folder, self._agent(Path(folder)) as agent:
            with Proxy(_url(agent), Path(folder) / "turns.db", *options, command=[command]) as proxy:
                outcomes = self._outcomes(proxy.url, Path(folder))
                proxy.flush()
                print(f"  turns: {dict(Counter(turn['binding'] for turn in proxy.turns()))}", flush=True)
            self.bypassing = sum(count for one, count in _arrived(Path(folder)).items() if one.endswith(" direct"))
        return outcomes

    def _agent(self, folder: Path) -> ChildProcess:
        python = python_with(PINS / "a2a-0.3.txt") if self.kit is _V03 else sys.executable
        return ChildProcess([python, "-m", f"tools.conformance.{self.kit.agent}", folder / "arrivals"])

    def _outcomes(self, url: str, folder: Path) -> Outcomes:
        python, report = self.checkout / ".venv/bin/python", self.report.with_suffix(".xml")
        command = [python, "-m", "pytest", *self.kit.runs[self.transport], "-q", f"{self.kit.url}={url}"]
        environment = os.environ | {"PYTHONHASHSEED": "0"}  # the kit prints sets
        environment.pop("PYTHONPATH", None)
        with self.report.with_suffix(".txt").open("w", encoding="utf-8") as log:
            subprocess.run(
                [*command, f"--junitxml={report}"],
                cwd=self.checkout,
                env=environment,
                stdout=log,
                stderr=log,
                check=False,  # tests of the kit fail with agents that are not what it expects
            )
        outcomes = read(report)
        print(f"{self.report.name}: {counts(outcomes)}; requests: {dict(_arrived(folder))}", flush=True)
        return outcomes


def _url(agent: ChildProcess) -> str:
    return agent.wait_for(r"listening on (\S+)")[1]


def _arrived(folder: Path) -> Counter[str]:
    return Counter((folder / "arrivals").read_text("ascii").splitlines())


if __name__ == "__main__":
    sys.exit(main())
