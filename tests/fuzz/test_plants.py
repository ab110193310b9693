"""That the planted faults still fit the source. Whether the fuzzer finds them shows `make fuzz ARGS="--planted"`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fuzz import plants


@pytest.mark.parametrize("name", plants.PLANTS)
def test_a_plant_fits_the_source(name: str) -> None:
    modules = ", ".join(sorted({f"{plants.PACKAGE}.{edit.module}" for edit in plants.PLANTS[name].edits}))
    program = (
        "import sys\n"
        f"sys.path.insert(0, {str(Path(plants.__file__).parent)!r})\n"
        "import plants\n"
        "del sys.path[0]\n"
        f"sys.meta_path.insert(0, plants.Planter(plants.PLANTS[{name!r}]))\n"
        f"import {modules}\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_plant_that_does_not_fit_says_so() -> None:
    misfit = plants.Edit("http1", "no such line", "")
    with pytest.raises(plants.PlantError, match="http1 has 0 places, not one, with: 'no such line'"):
        plants.planted("some line\n", [misfit])
