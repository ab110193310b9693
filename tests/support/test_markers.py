"""Markers tell the truth: what a test needs without having the marker for it is refused, also where it is there."""

from __future__ import annotations

import pytest
from support.chromium import require_chromium
from support.provision import python_environment


def test_what_installs_needs_its_marker() -> None:
    with pytest.raises(pytest.fail.Exception, match="needs the marker 'installs'"):
        python_environment("a2a-0.3")


def test_what_opens_a_browser_needs_its_marker() -> None:
    with pytest.raises(pytest.fail.Exception, match="needs the marker 'browser'"):
        require_chromium()


def test_who_asks_for_postgres_has_the_marker(request: pytest.FixtureRequest) -> None:
    assert not request.node.get_closest_marker("database")
    with pytest.raises(pytest.fail.Exception, match="needs the marker 'database'"):
        request.getfixturevalue("postgres")


@pytest.mark.parametrize("where", ["postgres"])
def test_a_parameter_counts_as_asking(where: str, request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("database")
