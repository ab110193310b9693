"""That every fault can be planted, and that what is to find it is there. `make faults` plants them all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.faults import FUZZ, faults
from tools.fuzz.__main__ import KINDS
from tools.mutation import ROOT, Tree

FAULTS = faults()
QUICK = "forbidden-without-proof"


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_fits_the_source(name: str) -> None:
    for file, source in FAULTS[name].sources(ROOT).items():
        if file.suffix == ".py":
            compile(source, file, "exec")


@pytest.mark.slow
def test_what_finds_the_faults_is_there() -> None:
    found_by = {fault.found_by for fault in FAULTS.values()}
    assert {one.split()[1] for one in found_by if one.startswith(FUZZ)} <= KINDS.keys()
    tests = sorted(one for one in found_by if not one.startswith(FUZZ))
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *tests]
    collected = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert collected.returncode == 0, collected.stdout[-3000:]


@pytest.mark.slow
def test_a_planted_fault_is_found(tmp_path: Path) -> None:
    assert FAULTS[QUICK].is_found(Tree(tmp_path), seed=1)
