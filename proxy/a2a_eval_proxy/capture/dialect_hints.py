"""A hint for agents whose tool calls are on the wire in a dialect that nobody reads."""

from __future__ import annotations

from typing import NamedTuple

from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.dialects import DIALECTS

DIALECT_NOT_READ = "dialect_not_read"
"""The finding of a turn without calls whose answer has parts of a dialect that is not read."""


class DialectMark(NamedTuple):
    """`key` is what the bytes of an answer in the dialect hold: the key that says what a part is, as JSON."""

    dialect: str
    key: bytes
    finding: Finding


DIALECT_MARKS = tuple(
    DialectMark(
        dialect.name,
        f'"{dialect.type_key}"'.encode(),
        Finding(
            DIALECT_NOT_READ,
            f"parts of the answer are marked {dialect.type_key!r}, as those that tell of tool calls; "
            f"--dialects {dialect.name} reads them",
            Severity.INFO,
            "response",
        ),
    )
    for dialect in DIALECTS.values()
)
