"""That the planted faults still fit the source. Whether the fuzzer finds them shows `make fuzz ARGS="--planted"`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from tools.fuzz.plants import PACKAGE, PLANTS, Edit, PlantError, planted


@pytest.mark.parametrize("name", PLANTS)
def test_a_plant_fits_the_source(name: str) -> None:
    edits = PLANTS[name].edits
    for module in {edit.module for edit in edits}:
        spec = importlib.util.find_spec(f"{PACKAGE}.{module}")
        assert spec is not None
        assert spec.origin is not None
        source = Path(spec.origin).read_text("utf-8")
        compile(planted(source, [edit for edit in edits if edit.module == module]), module, "exec")


def test_a_plant_that_does_not_fit_says_so() -> None:
    with pytest.raises(PlantError, match="http1 has 0 places, not one, with: 'no such line'"):
        planted("some line\n", [Edit("http1", "no such line", "")])
