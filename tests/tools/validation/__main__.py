"""Writes evaluators/docs/validation.md: `make validate`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tool_call_evaluators.grouping import grouped

from .agreement import BFCL, BFCL_AS_WRITTEN, TAU, TAU_ALL, TAU_WRITES, Agreement, agreement, mean_pass_hat, wilson
from .sources import Judged, bfcl, tau

PAGE = Path(__file__).parents[3] / "evaluators/docs/validation.md"
_LONGEST = 160

_HEAD = """\
# Validation

How often `tool_trajectory` and public verdicts on the same trajectories agree. `make validate` writes this page from
the rows in `tests/tools/validation/data`. Intervals are those of Wilson, at 95 %. [All rows of both
sources](#all-rows-of-both-sources) can be read, too.
"""
_BFCL = """\

## Berkeley Function Calling Leaderboard

Real calls of {models} models, judged by the leaderboard's AST checker. Its gold lists the accepted values of each
argument: they are written as `{{$one_of: [...]}}`, and as `{{$optional: ...}}` where the argument may be missing. Its
strings compare without case and some punctuation, and inside lists an integer does not equal a float:

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

That command of revision 99727994 of this repository also reads the sources' own files:

```sh
git clone https://github.com/HuanzhiMao/BFCL-Result
git clone https://github.com/ShishirPatil/gorilla && git -C gorilla checkout de8307b4   # the gold of 2024-08-11
git clone https://github.com/sierra-research/tau-bench
make validate ARGS="--bfcl BFCL-Result/2024-08-11 --bfcl-gold gorilla/berkeley-function-call-leaderboard/data \\
  --tau tau-bench/historical_trajectories/gpt-4o-airline.json"
```

That gave, on 2026-11-28: 54,493 answers of 71 models, without those that no one reads as calls, of which 99.96 %
agree (simple 99.97 %, multiple 100 %, parallel 99.98 %, parallel_multiple 99.87 %). 28,310 of them are by the 40 models
that are not in the rows above: 99.98 % agree, and 99.96 % before they showed that an empty string in the gold is an
accepted value, too. Of all 50 tasks of tau-bench, 94.5 % of 200 trials agree, 74 of 75 that pass are rewarded, and the
rewards give pass^1 0.42, as published, pass^2 0.27, pass^3 0.22 and pass^4 0.20.
"""
_KINDS = {
    "missing": "optional in the gold, required in the tool's schema, which the checker reads",
    "float": "a float of the same value for an integer parameter: the checker reads the tool's schema",
    "list": "optional in the gold; the checker accepts an empty list, too",
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
    models = sorted({item.model for item in judged})
    yield "\n| every second model by name | rows | agreement | 95 % interval |\n|---|---|---|---|\n"
    for half, first in (("from the first", 0), ("from the second", 1)):
        chosen = set(models[first::2])
        counts = agreement((item for item in judged if item.model in chosen), BFCL)[""]
        yield f"| {half}: {len(chosen)} | {counts.total:,} | {_share(counts)} |\n"
    yield from _disagreements(found[""])


def _share(counts: Agreement) -> str:
    low, high = wilson(counts.right + counts.wrong, counts.total)
    return f"{counts.share:.2%} | {low:.2%} to {high:.2%}"


def _disagreements(found: Agreement) -> Iterator[str]:
    sides = (("passes here, invalid there", found.passed_alone), ("fails here, valid there", found.failed_alone))
    yield "\n| disagreement | rows | why | example |\n|---|---|---|---|\n"
    for side, items in sides:
        for kind, alike in sorted(grouped((_kind(item), item) for item in items).items()):
            example = _cut(_calls(alike[0]))
            yield f"| {side} | {len(alike)} | {_KINDS.get(kind, kind)} | {example} |\n"


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
    outcomes = list(grouped((item.name, item.right) for item in trials).values())
    fewest = min(map(len, outcomes))
    rates = ", ".join(f"pass^{k} {mean_pass_hat(outcomes, k):.2f}" for k in range(1, min(4, fewest) + 1))
    yield f"\nThe rewards of these tasks: {rates}.\n"


def _calls(item: Judged) -> str:
    made = [{"name": call.name, "arguments": call.arguments} for call in item.case.tool_calls]
    return json.dumps(made, ensure_ascii=False)


def _cut(text: str) -> str:
    short = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    return f"`{short.replace('|', '¦').replace('`', '')}`"


if __name__ == "__main__":
    PAGE.write_text(page(list(bfcl()), list(tau())), "utf-8")
    print(f"wrote {PAGE}")
