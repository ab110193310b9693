"""The sections of extension/docs/frameworks as programs: what they install, their files, and how they start."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from a2a_eval_proxy.features.doctor.frameworks import CAN_BE_NAMED
from support.linked import EXTENSION

from .page_code import section

PAGES = EXTENSION / "docs/frameworks"
BASE = "a2a-sdk"
"""The section whose `server.py` others use."""
OTHER_LANGUAGES = ("by-hand", "javascript")
TRACES = "(README.md#traces)"
"""The link of a section whose traces need what all need."""

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"^ ?# (\w+\.py)\n")
_FOR_TRACES = " # agent.py, for traces\n"
_ON_TOP = "# at the top of agent.py\n"
_TRACED = "opentelemetry-instrument"
_ASSIGNMENT = re.compile(r"\w+=\S*")


@dataclass(frozen=True)
class Page:
    """One section, read."""

    requirements: list[str]
    """What it installs, for pip; the extension from this checkout."""
    files: dict[str, str]
    """Diff of each file by its name; `server.py` is that of `BASE` where the page has none."""
    on_top: str
    """Lines for traces, before those of agent.py."""
    for_traces: list[tuple[str, str]]
    """Lines of agent.py, and what takes their place for traces."""
    traced_command: list[str]
    """How the agent starts with traces, without variables; [] for a page without."""
    variables: dict[str, str]
    """Environment variables of that command, but those that say where traces go."""

    def side(self, name: str, mark: str) -> str:
        """A file before (`-`) or after (`+`) the lines for the extension."""
        lines = self.files[name].splitlines()
        return "".join(line[1:] + "\n" for line in lines if line[:1] in (" ", mark, ""))


def read(name: str) -> Page:
    """The section of the framework `name`."""
    text = section(name)
    if TRACES in text:
        text += section("Traces")
    blocks = _BLOCK.findall(text)
    files = {found[1]: block for kind, block in blocks if kind == "diff" and (found := _FILE.match(block))}
    if "server.py" not in files and "from server import" in files.get("agent.py", ""):
        files["server.py"] = read(BASE).files["server.py"]
    on_top = "".join(block for kind, block in blocks if kind == "python" and block.startswith(_ON_TOP))
    for_traces = [block for kind, block in blocks if kind == "diff" and block.startswith(_FOR_TRACES)]
    requirements: list[str] = []
    command: list[str] = []
    exported: list[str] = []
    for line in "\n".join(block for kind, block in blocks if kind == "console").replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words[:2] == ["pip", "install"]:
            requirements += [word.replace("./extension", f"-e {EXTENSION}") for word in words[2:]]
        elif words[:1] == ["export"]:
            exported = words[1:]
        elif _TRACED in words or "OTEL_EXPORTER_OTLP_ENDPOINT" in line:
            command = words
    values = [word for word in command if _ASSIGNMENT.fullmatch(word)]
    variables = dict(value.split("=", 1) for value in [*values, *exported])
    variables.pop("OTEL_EXPORTER_OTLP_ENDPOINT", None)
    return Page(
        requirements,
        files,
        on_top,
        [pair for block in for_traces for pair in _pairs(block)],
        command[len(values) :],
        variables,
    )


def _pairs(diff: str) -> list[tuple[str, str]]:
    """What a diff puts in place of what: added lines follow the removed or common lines that they replace or follow."""
    pairs: list[tuple[str, str]] = []
    for line in diff.removeprefix(_FOR_TRACES).splitlines():
        text = line[1:] + "\n"
        if line.startswith("+"):
            old, new = pairs.pop()
            pairs.append((old, new + text))
        else:
            pairs.append((text, text if line.startswith(" ") else ""))
    return pairs


def names() -> list[str]:
    """The frameworks whose sections have an agent.py."""
    names = [*(framework.key for framework in CAN_BE_NAMED), "a2a-sdk-0.3"]
    return sorted(name for name in names if name not in OTHER_LANGUAGES and "# agent.py\n" in section(name))


def install_arguments(page: Page) -> list[str]:
    """`requirements` as arguments of pip, an editable one as two."""
    return [part for requirement in page.requirements for part in requirement.split(" ", 1)]


def written(page: Page, folder: Path, mark: str, port: int, *, traced: bool) -> None:
    """Write the files of one side into `folder`, with the agent on `port`."""
    for name in page.files:
        text = page.side(name, mark)
        if traced and name == "agent.py":
            for old, new in page.for_traces:
                assert text.count(old) == 1, f"the page's agent.py has no such line: {old}"
                text = text.replace(old, new)
            text = page.on_top + text
        (folder / name).write_text(text.replace("9999", str(port)), "utf-8")
