"""Checks of agents that run in the process of the test: what is polled and waited for comes soon."""

from __future__ import annotations

import pytest
from a2a_eval_proxy.features.check import client


@pytest.fixture(autouse=True)
def _brief_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "POLL_S", 0.02)
    monkeypatch.setattr(client, "CLOSING_GRACE_S", 0.3)
