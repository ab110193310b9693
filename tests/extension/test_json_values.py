"""Numbers of the JSON on the wire, whoever reads it."""

from __future__ import annotations

import json

import pytest
from a2a_eval_proxy.protocol.operations import decode_json
from a2a_tool_capture.json_values import read_json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1234567890123456788", 1234567890123456788),
        ("18446744073709551616", 1.8446744073709552e19),
        ("2.50", 2.5),
        ("1e400", "inf"),
        ("-1e400", "-inf"),
        ("NaN", "nan"),
        ("-Infinity", "-inf"),
        ("1e-400", 0.0),
        ("9" * 400, int("9" * 400)),
    ],
)
def test_a_number_is_the_same_for_both_readers_and_stays_json(text: str, value: object) -> None:
    assert read_json(f"[{text}]") == decode_json(f"[{text}]".encode()) == [value]
    assert json.dumps(value, allow_nan=False)
