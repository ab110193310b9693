"""A hint for agents whose responses carry tool calls in a dialect that the proxy does not read."""

from __future__ import annotations

from typing import NamedTuple

from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.dialects import DIALECTS

DIALECT_NOT_READ = "dialect_not_read"
"""The finding of a turn without calls whose answer has parts of a dialect that is not read."""


class DialectMark(NamedTuple):
    """`key` occurs in the bytes of an answer in the dialect: the key that names the kind of a part, as JSON."""

    dialect: str
    key: bytes
    finding: Finding


DIALECT_MARKS = tuple(
    DialectMark(
        dialect.name,
        f'"{dialect.type_key}"'.encode(),
        Finding(
            DIALECT_NOT_READ,
            f"parts of the answer are marked {dialect.type_key!r}, as those of tool calls are; "
            f"--dialects {dialect.name} reads them",
            Severity.INFO,
            "response",
        ),
    )
    for dialect in DIALECTS.values()
)
