"""Problems that traffic causes again and again are logged once."""

from __future__ import annotations

import logging

import pytest
from a2a_eval_proxy.errors import log_once


def test_many_problems_of_one_kind_hide_no_other(caplog: pytest.LogCaptureFixture) -> None:
    cards, capture = logging.getLogger("test_errors.cards"), logging.getLogger("test_errors.capture")
    for number in range(1_000):
        log_once(cards, f"card {number // 2}", level=logging.WARNING)
    for _ in range(2):
        log_once(capture, "capture failed", RuntimeError("a bug"))
    of_cards = [record.getMessage() for record in caplog.records if record.name == cards.name]
    assert of_cards == [f"card {number}" for number in range(100)]
    (of_capture,) = (record for record in caplog.records if record.name == capture.name)
    assert (of_capture.levelno, str(of_capture.exc_info and of_capture.exc_info[1])) == (logging.ERROR, "a bug")
