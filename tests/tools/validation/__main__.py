"""Writes evaluators/docs/validation.md: `make validate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tool_call_evaluators.grouping import grouped

from .agreement import BFCL, BFCL_AS_WRITTEN, TAU, TAU_ALL, TAU_WRITES, Agreement, agreement, wilson
from .sources import Judged, bfcl, tau

PAGE = Path(__file__).parents[3] / "evaluators/docs/validation.md"

_HEAD = """\
# Scores compared with public verdicts

How often `tool_trajectory` and public verdicts on the same trajectories agree. `make validate` writes this page from
the rows in `tests/tools/validation/data`. Intervals are those of Wilson, at 95 %.
"""
_BFCL = """\

## Berkeley Function Calling Leaderboard

Real calls of {models} models, judged by the leaderboard's AST checker. It lists the accepted values of each argument:
`{{$one_of: [...]}}`, or `{{$optional: ...}}` where the argument may be missing. Its strings compare without case and
some punctuation, and inside lists an integer does not equal a float:

```yaml
evaluators:
  - tool_trajectory:
      mode: any_order
      matcher: {{case_insensitive: true, ignored_characters: " ,./-_*^", typed_lists: true}}
```
"""
_TAU = """\

## tau-bench, airline

{trials} trials of {tasks} tasks. The reward is 1 if the database at the end, and what the agent says, are as they
should be. Reads may be made or not; what counts is which writes succeeded:

```yaml
tool_classes:
  reads: [get_*, search_*, list_*, calculate, think, transfer_*]
evaluators:
  - tool_trajectory:        # exactly the expected writes succeeded
      id: writes
      mode: any_order
      only_succeeded: true
      ignored_tools: [reads]
  - tool_trajectory:        # and the expected reads were made
      id: reads
      mode: superset
      ignored_tools: [calculate, think, transfer_*]
```
"""
_ALL_ROWS = """\

## All rows of both sources

Revision 99727994 of this repository read all rows of both sources, on 2026-11-28. Of 54,493 answers of 71 models,
99.96 % agree, and of the 28,310 answers of models that are not in the rows above, 99.98 %. Of 200 trials of all 50
tasks of tau-bench, 94.5 % agree, and 74 of 75 that pass are rewarded.
"""
_KINDS = {
    "missing": "optional by its list, required in the tool's schema, which the checker reads",
    "float": "a float of the same value for an integer parameter: the checker reads the tool's schema",
    "list": "optional by its list; the checker accepts an empty list, too",
    "spelling": "names are compared here with `_` for each dot; there, each answer by the rule for its model",
    "source": "the answer is Python source, which is read here as Python reads it",
}
"""Why verdicts differ, each with the rows' own evidence in `_kind`."""


def page(leaderboard: list[Judged], trials: list[Judged]) -> str:
    models = len({item.model for item in leaderboard})
    tasks = len({item.name for item in trials})
    parts = [_HEAD, _BFCL.format(models=models), *_of_bfcl(leaderboard)]
    return "".join([*parts, _TAU.format(trials=len(trials), tasks=tasks), *_of_tau(trials), _ALL_ROWS])


def _of_bfcl(judged: list[Judged]) -> Iterator[str]:
    strict, found = agreement(judged, BFCL_AS_WRITTEN), agreement(judged, BFCL)
    yield "\n| category | rows | agreement | 95 % interval | with the default matcher |\n|---|---|---|---|---|\n"
    for category in [*sorted(filter(None, found)), ""]:
        counts = found[category]
        share = f"{_share(counts)} | {strict[category].share:.2%}"
        yield f"| {category or '**all**'} | {counts.total:,} | {share} |\n"
    yield from _disagreements(found[""])


def _share(counts: Agreement) -> str:
    low, high = wilson(counts.right + counts.wrong, counts.total)
    return f"{counts.share:.2%} | {low:.2%} to {high:.2%}"


def _disagreements(found: Agreement) -> Iterator[str]:
    sides = (("passes here, invalid there", found.passed_alone), ("fails here, valid there", found.failed_alone))
    yield "\n| disagreement | rows | why |\n|---|---|---|\n"
    for side, items in sides:
        for kind, alike in sorted(grouped((_kind(item), item) for item in items).items()):
            yield f"| {side} | {len(alike)} | {_KINDS.get(kind, kind)} |\n"


def _kind(item: Judged) -> str:
    """The key of `_KINDS` for a disagreement, by what is in the row."""
    values = [value for call in item.case.tool_calls for value in (call.arguments or {}).values()]
    if item.right:
        return "list" if [] in values else "source"
    if item.problem.endswith("missing_required"):
        return "missing"
    return "float" if any(isinstance(value, float) and value.is_integer() for value in values) else "spelling"


def _of_tau(trials: list[Judged]) -> Iterator[str]:
    settings: Mapping[str, tuple] = {"all calls": TAU_ALL, "writes that succeeded": TAU_WRITES, "both, as above": TAU}
    yield "\n| setting | trials | agreement | 95 % interval | rewarded of those that pass |\n|---|---|---|---|---|\n"
    for name, evaluators in settings.items():
        counts = agreement(trials, evaluators)[""]
        low, high = wilson(counts.right + counts.wrong, counts.total)
        passing = counts.right + len(counts.passed_alone)
        rewarded = f"{counts.right} of {passing} ({counts.precision:.1%})"
        yield f"| {name} | {counts.total} | {counts.share:.1%} | {low:.1%} to {high:.1%} | {rewarded} |\n"
    counts = agreement(trials, TAU)[""]
    yield "\n| disagreement | trials | why | tasks |\n|---|---|---|---|\n"
    for side, why, items in (
        ("passes without a reward", "the reward reads what the agent says, too", counts.passed_alone),
        ("fails with a reward", "other reads, or other writes, led to the same database", counts.failed_alone),
    ):
        tasks = Counter(int(item.name) for item in items)
        listed = ", ".join(f"{name}{f' ({n} trials)' if n > 1 else ''}" for name, n in sorted(tasks.items()))
        yield f"| {side} | {len(items)} | {why} | {listed or '–'} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(list(bfcl()), list(tau())), "utf-8")
    print(f"wrote {PAGE}")
