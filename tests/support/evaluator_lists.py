"""The pages of the evaluators on the site, and their list in the README: both from the classes.

`python tests/support/evaluator_lists.py` writes the list.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from a2a_eval_proxy.features.evaluators import explained
from tool_call_evaluators.evaluator import EvaluatorBase
from tool_call_evaluators.registry import built_in_evaluators

README = Path(__file__).parents[2] / "evaluators/README.md"
BEGIN, END = "<!-- evaluators: python tests/support/evaluator_lists.py -->\n", "<!-- /evaluators -->\n"


class Family(NamedTuple):
    """Evaluators on one page. All of them have the options `without`, which the page does not repeat."""

    page: str
    title: str
    introduction: str
    without: tuple[str, ...]
    members: tuple[type[EvaluatorBase], ...]


def families() -> tuple[Family, Family, Family]:
    classes = list(built_in_evaluators().values())
    judged = tuple(cls for cls in classes if cls.needs_judge)
    calls = tuple(cls for cls in classes if cls.reads_calls and cls not in judged)
    others = tuple(cls for cls in classes if cls not in (*judged, *calls))
    return (
        Family(
            "reference/evaluators-of-calls.md",
            "Tool calls",
            "These compute a score from the tool calls of a turn or, with `scope: conversation`, of a conversation. "
            "[How calls compare](../evaluators/docs/matching.md) explains `matcher`. Each also has the "
            "options `id` and `scope`, and those that compare values `judge` and `votes`, for `$same`.",
            ("id", "judge", "votes"),
            calls,
        ),
        Family(
            "reference/evaluators-of-answers.md",
            "Answers, limits, agents, conversations",
            "These compute a score from anything else. Each also has the options `id` and `scope`.",
            ("id", "judge", "votes"),
            others,
        ),
        Family(
            "reference/evaluators-judged.md",
            "Judged",
            "These ask a language model, the [judge](../evaluators/docs/judge.md). Each also has the options `id`, "
            "`scope`, `judge` (settings that come before those of the suite) and `votes` (how often it is asked). "
            "The details of each result have `votes` and `judge`.",
            ("id", "judge", "votes"),
            judged,
        ),
    )


def pages() -> Iterator[tuple[str, str]]:
    """Path and text of each page."""
    for family in families():
        sections = [f"## {cls.name}\n\n{explained(cls, family.without)}" for cls in family.members]
        yield family.page, "\n\n".join([f"# {family.title}", family.introduction, *sections]) + "\n"


def readme() -> str:
    """The README with the list as it is now."""
    tables = []
    for family in families():
        rows = [f"| `{cls.name}` | {re.split('[:;.]', inspect.getdoc(cls) or '')[0]} |\n" for cls in family.members]
        tables.append(f"| {family.title} | |\n|---|---|\n" + "".join(rows))
    head, found, rest = README.read_text("utf-8").partition(BEGIN)
    _, closed, tail = rest.partition(END)
    assert found
    assert closed
    return "\n".join([head + BEGIN, *tables, END + tail])


if __name__ == "__main__":
    README.write_text(readme(), "utf-8")
