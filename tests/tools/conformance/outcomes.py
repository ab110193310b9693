"""What the tests of the kit come to, from its JUnit reports, and where the proxy makes a difference."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

_CHANGES = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[\d:.]+"  # UUIDs, dates
    r"|\b0x[0-9a-f]+|\b[0-9a-f]{8}\b|\b[0-9a-f]{32}\b"  # addresses of objects, ids
    r"|(?<=:)\d{4,5}\b|(?<![\d.])\d+\.\d+s?\b(?!\.\d)"  # ports, times
)
"""What is another one in each run. Codes of errors, and other whole numbers, stay."""


Outcomes = Mapping[str, str]
"""By test, of one run of the kit: passed, failed, error, skipped, xfailed or missing, and the kit's message, without
the parts that differ in each run."""


def read(report: Path) -> Outcomes:
    """The outcomes in a report. Raises OSError for a missing file, ParseError for anything but XML."""
    return {
        f"{case.get('classname')}::{case.get('name')}": _outcome(case) for case in ET.parse(report).iter("testcase")
    }


def counts(outcomes: Outcomes) -> str:
    """As `3 passed, 1 failed`."""
    return ", ".join(
        f"{count} {kind}" for kind, count in Counter(one.partition(":")[0] for one in outcomes.values()).most_common()
    )


def differences(direct: Sequence[Outcomes], proxied: Sequence[Outcomes]) -> Iterator[tuple[str, set[str], set[str]]]:
    """The tests that do not have the same outcomes in the runs of both kinds, with the outcomes of either."""
    for test in sorted({test for outcomes in (*direct, *proxied) for test in outcomes}):
        found, seen = ({outcomes.get(test, "missing") for outcomes in runs} for runs in (direct, proxied))
        if found != seen:
            yield test, found, seen


def _outcome(case: ET.Element) -> str:
    for kind in ("error", "failure", "skipped"):
        if (found := case.find(kind)) is not None:
            lines = found.get("message", "").splitlines()
            reason = _CHANGES.sub("…", " ".join(line for line in lines if not line.startswith(" +")))  # pytest's detail
            if found.get("type") == "pytest.xfail":
                return f"xfailed: {reason}"
            return f"{'failed' if kind == 'failure' else kind}: {reason}"
    return "passed"
