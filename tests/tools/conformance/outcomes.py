"""What the tests of the kit come to, from its JUnit reports, and where the proxy makes a difference."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

_CHANGES = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[\d:.]+"  # UUIDs, dates
    r"|\b0x[0-9a-f]+|\b[0-9a-f]{8}\b|\b[0-9a-f]{32}\b"  # addresses of objects, ids
    r"|(?<=:)\d{4,5}\b|(?<![\d.])\d+\.\d+s?\b(?!\.\d)"  # ports, times
)
"""What is another one in each run. Codes of errors, and other whole numbers, stay."""


@dataclass(frozen=True)
class Outcome:
    """`kind` is passed, failed, error, skipped, xfailed or missing.

    `reason` is the kit's message, without the parts that differ in each run."""

    kind: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}" if self.reason else self.kind


Outcomes = Mapping[str, Outcome]
"""By test, of one run of the kit."""


@dataclass(frozen=True)
class Difference:
    """A test with other outcomes through the proxy than without it."""

    test: str
    direct: Sequence[Outcome]
    proxied: Sequence[Outcome]

    @property
    def new(self) -> bool:
        """Whether the proxied runs show an outcome that no direct run shows; else a direct run was alone with its."""
        return not set(self.proxied) <= set(self.direct)


def read(report: Path) -> dict[str, Outcome]:
    """The outcomes in a report. Raises OSError for a missing file, ParseError for anything but XML."""
    return {
        f"{case.get('classname')}::{case.get('name')}": _outcome(case) for case in ET.parse(report).iter("testcase")
    }


def counts(outcomes: Outcomes) -> str:
    """As `3 passed, 1 failed`."""
    return ", ".join(f"{count} {kind}" for kind, count in Counter(o.kind for o in outcomes.values()).most_common())


def differences(direct: Sequence[Outcomes], proxied: Sequence[Outcomes]) -> Iterator[Difference]:
    """The tests that do not have the same outcomes in the runs of both kinds."""
    for test in sorted({test for outcomes in (*direct, *proxied) for test in outcomes}):
        found = Difference(test, _seen(direct, test), _seen(proxied, test))
        if set(found.direct) != set(found.proxied):
            yield found


def _seen(runs: Iterable[Outcomes], test: str) -> list[Outcome]:
    return [outcomes.get(test, Outcome("missing")) for outcomes in runs]


def _outcome(case: ET.Element) -> Outcome:
    for kind in ("error", "failure", "skipped"):
        if (found := case.find(kind)) is not None:
            lines = found.get("message", "").splitlines()
            reason = _CHANGES.sub("…", " ".join(line for line in lines if not line.startswith(" +")))  # pytest's detail
            if found.get("type") == "pytest.xfail":
                return Outcome("xfailed", reason)
            return Outcome("failed" if kind == "failure" else kind, reason)
    return Outcome("passed")
