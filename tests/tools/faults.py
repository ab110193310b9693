"""Plants the faults of `faults.yaml`, each alone in a copy of the working tree, and runs what is to find it.

`make faults`, or `make faults ARGS="NAME..."`. Each entry has a sentence, what finds the fault (the id of a test, or
`fuzz KIND`: rounds of `tools.fuzz`), and the texts that plant it, each of which its file has exactly
once. The exit code is 1 where a fault is not found.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .mutation import Tree

FUZZ = "fuzz "
_FUZZ_MINUTES = 2
_TEST_S = 300.0
_FAILED = 1  # of pytest and of the fuzzer


class FaultError(Exception):
    """A fault cannot be planted, or what is to find it cannot be run."""


@dataclass(frozen=True)
class Fault:
    name: str
    sentence: str
    found_by: str
    edits: Sequence[Mapping[str, str]]
    """In `file`, relative to the root, `old` becomes `new`."""

    def sources(self, root: Path) -> dict[Path, str]:
        """The changed files with what is in them then. Raises FaultError."""
        found: dict[Path, str] = {}
        for edit in self.edits:
            file = root / edit["file"]
            source = found.get(file) or file.read_text("utf-8")
            if source.count(edit["old"]) != 1:
                raise FaultError(f"{self.name}: {edit['file']} has {source.count(edit['old'])}: {edit['old']!r}")
            found[file] = source.replace(edit["old"], edit["new"])
        return found

    @contextmanager
    def planted(self, root: Path) -> Iterator[None]:
        """Raises FaultError."""
        sources = self.sources(root)
        before = {file: file.read_bytes() for file in sources}
        try:
            for file, source in sources.items():
                file.write_text(source, "utf-8")
            yield
        finally:
            for file, content in before.items():
                file.write_bytes(content)

    def is_found(self, tree: Tree, seed: int) -> bool:
        """Whether what is to find it does. Raises FaultError."""
        with self.planted(tree.folder):
            if self.found_by.startswith(FUZZ):
                rounds = ("--kind", *self.found_by.split()[1:], "--minutes", str(_FUZZ_MINUTES))
                code, output = tree.python("-m", "tools.fuzz", *rounds, "--seed", str(seed), timeout_s=_TEST_S)
            else:
                code, output = tree.pytest("-x", "--everything", self.found_by, timeout_s=_TEST_S)
        if code not in (0, _FAILED):
            raise FaultError(f"{self.name}: {self.found_by} ends with {code}:\n{output[-2000:]}")
        return code == _FAILED


def faults() -> dict[str, Fault]:
    """Those of the file, by name."""
    entries: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
    return {name: Fault(name, one["fault"], one["found by"], one["edits"]) for name, one in entries.items()}


def main() -> int:
    """1 where a fault is not found."""
    known = faults()
    parser = argparse.ArgumentParser(prog="make faults", description="Plant faults, and run what is to find them.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these; default all")
    parser.add_argument("--seed", type=int, default=5, help="of the fuzzer")
    options = parser.parse_args()
    hidden = []
    chosen = [known[name] for name in options.names or known]
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder))
        for fault in chosen:
            began = time.monotonic()
            try:
                verdict = "found" if fault.is_found(tree, options.seed) else "NOT FOUND"
            except FaultError as error:
                verdict = f"{error}\nNOT TRIED"
            if verdict != "found":
                hidden.append(fault.name)
            print(f"{verdict} in {time.monotonic() - began:.0f} s: {fault.name} ({fault.sentence})", flush=True)
    print(f"{len(chosen) - len(hidden)} of {len(chosen)} found{''.join(f', not {name}' for name in hidden)}")
    return 1 if hidden else 0


if __name__ == "__main__":
    raise SystemExit(main())
