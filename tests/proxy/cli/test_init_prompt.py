"""`init` without --agent at a terminal: a wrong URL is asked for again, and never a traceback."""

from __future__ import annotations

import click
import pytest
from a2a_eval_proxy.features.init.feature import _agent_url


def test_a_wrong_url_is_one_sentence() -> None:
    with pytest.raises(click.BadParameter, match="expected a URL such as"):
        _agent_url("not-a-url")
    assert _agent_url("localhost:9999") == "http://localhost:9999"
