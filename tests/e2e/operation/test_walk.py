"""The walk through the README, command by command, with the output it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from support.patience import PATIENCE_S
from support.ports import held_ports
from tool_call_evaluators import load_suite

README = Path(__file__).parents[3] / "README.md"
HEADING = "## From zero to a failing gate and back\n"
END = "\n## Documentation\n"
PORTS = {"9999": "", "8080": "LISTEN", "8081": "ADMIN", "4318": "OTLP"}
"""The ports of the README, and the variables that put `serve` elsewhere. With the last, `run` would wait for traces."""
READY = ("Sample agent ready", "a2a-eval-proxy ready")
DONE = "--- done ---"
INSTALL = "pip install '.[pytest]' && mkdir -p ../trial && cd ../trial"
"""What comes first: pytest in the checkout would take the checkout's own configuration."""


class Shell:
    """A bash that is given one command after the other, as at a prompt; `cwd` is where it starts."""

    def __init__(self, cwd: Path) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("A2A_EVAL_PROXY_")}
        self._bash = subprocess.Popen(
            ["bash"],
            cwd=cwd,
            env=clean | {"PATH": path, "COLUMNS": "100", "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends what runs in the background, too."""
        assert self._bash.stdin is not None
        if self._bash.poll() is None:
            self._bash.stdin.write("kill $(jobs -p) 2>/dev/null; exit\n")
        self._bash.stdin.close()
        self._bash.wait(PATIENCE_S)
        assert self._bash.stdout is not None
        self._bash.stdout.close()

    def run(self, command: str) -> list[str]:
        """The lines that a command printed; those of one in the background until it says that it is ready."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        in_background = command.endswith("&")
        # on a line of its own, whatever the command printed; and the next command may ask for $?
        marked = f"{command}\n_code=$?; printf '\\n%s\\n' '{DONE}'; (exit $_code)\n"
        self._bash.stdin.write(f"{command}\n" if in_background else marked)
        lines: list[str] = []
        for line in self._bash.stdout:
            if line.rstrip() == DONE:
                return lines
            lines.append(line.rstrip())
            if in_background and line.startswith(READY):
                return lines
        raise AssertionError(f"the shell ended at {command!r}: {lines}")


@pytest.fixture
def ports() -> Iterator[dict[str, str]]:
    """A free port for each of the README's."""
    with held_ports(len(PORTS)) as held:
        yield {shown: str(port) for shown, port in zip(PORTS, held, strict=True)}


def steps(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of the console blocks, each with the lines that are shown below it."""
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        first, *rest = re.split(r"^\$ ", block, flags=re.MULTILINE)
        assert first == "", "a block begins with a command"
        for step in rest:
            command, *shown = step.splitlines()
            yield command, [line.rstrip() for line in shown]


def assert_shown(shown: list[str], printed: list[str], command: str) -> None:
    """Every line shown was printed, in this order; `...` stands for lines, and at the end of a line for its rest."""
    rest = iter(printed)
    for line in shown:
        if line not in ("...", ""):
            found = any(out.startswith(line[:-3]) if line.endswith("...") else out == line for out in rest)
            assert found, f"{command}\nshows {line!r} and printed:\n" + "\n".join(printed)


@pytest.mark.slow
@pytest.mark.timeout(600)  # twenty commands: 11 s on an idle machine
def test_the_walk(tmp_path: Path, ports: dict[str, str]) -> None:
    text = README.read_text("utf-8").partition(HEADING)[2].partition(END)[0]
    # in one go: a free port may begin with the digits of another
    text = re.sub(rf"(?<=[ :])({'|'.join(ports)})\b", lambda match: ports[match[1]], text)
    elsewhere = " ".join(f"A2A_EVAL_PROXY_{name}=127.0.0.1:{ports[shown]}" for shown, name in PORTS.items() if name)
    for language, name in (("yaml", "suite.yaml"), ("python", "test_shop.py")):
        (content,) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
        (tmp_path / name).write_text(content, "utf-8")
    commands = []
    with Shell(tmp_path) as shell:
        for command, shown in steps(text):
            commands.append(command)
            if command != INSTALL:  # done: it is what is tested, and `tmp_path` is no checkout
                serves = command.startswith("a2a-eval-proxy serve")
                assert_shown(shown, shell.run(f"{elsewhere} {command}" if serves else command), command)
    assert commands[0] == INSTALL
    assert any(command.startswith("pytest ") for command in commands)
    assert {command.split()[1] for command in commands if command.startswith("a2a-eval-proxy")} >= {
        "run",
        "compare",
        "record",
        "serve",
        "evaluate",
        "check",
    }
    assert (tmp_path / "report" / "report.html").exists()
    assert load_suite(tmp_path / "recorded.yaml").cases
