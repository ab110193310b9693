"""What the reference documents state, with the tests that show it.

`statements.yaml` contains the statements. A test names those it shows, `@pytest.mark.statement(14, 15)`. `make
references` (`PYTHONPATH=tests python -m tools.references.table`) collects the tests, and prints a line per statement.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]


class Shown:
    """A plugin of pytest: the tests by the number of each statement that they show."""

    def __init__(self) -> None:
        self.tests: defaultdict[int, set[str]] = defaultdict(set)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("statement"):
                for number in mark.args:
                    self.tests[number].add(item.nodeid.partition("[")[0])


def main() -> None:
    os.chdir(ROOT)
    shown = Shown()
    with redirect_stdout(sys.stderr):
        pytest.main(["--collect-only", "-q", "-q", "--everything", "-p", "no:cacheprovider"], plugins=[shown])
    documents = yaml.safe_load(Path(__file__).with_name("statements.yaml").read_text("utf-8"))
    for document, entries in documents.items():
        print(f"\n{document}\n")
        for number, entry in entries.items():
            evidence = [f"otherwise: {entry['differs']}"] if "differs" in entry else []
            evidence += sorted(shown.tests[number])
            print(f"{number}. {entry['text']}", *(evidence or ["no test shows it"]), sep="\n     ")


if __name__ == "__main__":
    main()
