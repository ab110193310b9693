"""Where a marker is deselected, a test that needs what it stands for is refused, also where that is there."""

from __future__ import annotations

import pytest
from support.chromium import require_chromium
from support.provision import python_environment


@pytest.fixture(autouse=True)
def deselected(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request.config.option, "markexpr", "not installs and not browser and not database")


def test_what_installs_needs_its_marker() -> None:
    with pytest.raises(pytest.fail.Exception, match="needs the marker 'installs'"):
        python_environment("a2a-0.3")


def test_what_opens_a_browser_needs_its_marker() -> None:
    with pytest.raises(pytest.fail.Exception, match="needs the marker 'browser'"):
        require_chromium()


@pytest.mark.parametrize("where", ["postgres"])
def test_a_parameter_counts_as_asking(where: str, request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("database")
