"""The lists of the evaluators in their README and in the navigation of the site, from their classes and pages.

`python tests/support/evaluator_lists.py` writes them.
"""

from __future__ import annotations

import re
from pathlib import Path

from tool_call_evaluators.evaluator import is_built_in
from tool_call_evaluators.registry import evaluator_class, evaluator_names

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "evaluators/docs"
README, NAVIGATION = ROOT / "evaluators/README.md", ROOT / "mkdocs.yml"
BEGIN, END = "evaluators: python tests/support/evaluator_lists.py", "/evaluators"


def names(*, judged: bool) -> list[str]:
    """Of the built-in evaluators that can only ask a judge, or of all others."""
    classes = {name: evaluator_class(name) for name in evaluator_names()}
    return [name for name, cls in classes.items() if is_built_in(cls) and cls.needs_judge is judged]


def question(name: str) -> str:
    """The question at the head of its page."""
    found = re.match(rf"# {name}\n\n\*\*(.+?)\*\*", (PAGES / f"{name}.md").read_text("utf-8"), re.DOTALL)
    assert found, f"{name}.md does not begin with its name and a question in bold type"
    text = " ".join(found[1].split())
    return text[0].lower() + text[1:]


def table(evaluators: list[str]) -> str:
    rows = [f"| [{name}](docs/{name}.md) | {question(name)} |\n" for name in evaluators]
    return "| evaluator | question |\n|---|---|\n" + "".join(rows)


def listed() -> dict[Path, str]:
    """By file, its text with the lists as they are now."""
    tables = f"{table(names(judged=False))}\nThese ask a language model:\n\n{table(names(judged=True))}"
    entries = [
        f"      - {title}:\n" + "".join(f"          - evaluators/docs/{name}.md\n" for name in names(judged=judged))
        for title, judged in (("Computed", False), ("Judged", True))
    ]
    return {
        README: _between(README, f"<!-- {BEGIN} -->\n", f"<!-- {END} -->\n", f"\n{tables}\n"),
        NAVIGATION: _between(NAVIGATION, f"      # {BEGIN}\n", f"      # {END}\n", "".join(entries)),
    }


def _between(path: Path, begin: str, end: str, text: str) -> str:
    head, found, rest = path.read_text("utf-8").partition(begin)
    _, closed, tail = rest.partition(end)
    assert found, f"{path.name} has no {begin}"
    assert closed, f"{path.name} has no {end}"
    return head + begin + text + end + tail


if __name__ == "__main__":
    for path, text in listed().items():
        path.write_text(text, "utf-8")
