"""Writes evaluators/docs/validation.md: `make validate`."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tool_call_evaluators.grouping import grouped

from .agreement import BFCL, BFCL_AS_WRITTEN, TAU, TAU_ALL, TAU_WRITES, Agreement, agreement, mean_pass_hat, wilson
from .sources import DATA, Judged, bfcl, tau

PAGE = Path(__file__).parents[2] / "evaluators/docs/validation.md"
_LONGEST = 160

_HEAD = """\
# Validation

How often `tool_trajectory` and public verdicts on the same trajectories agree. `make validate` writes this page from
the rows in `tests/validation/data`, and reads others with `ARGS="--bfcl FILE --tau FILE"`. Intervals are those
of Wilson, at 95 %.
"""
_BFCL = """\

## Berkeley Function Calling Leaderboard

Real calls of 35 models, judged by the leaderboard's AST checker. Its gold lists the accepted values of each argument:
they are written as `{$one_of: [...]}`, and as `{$optional: ...}` where the argument may be missing. Its strings compare
without case and some punctuation, and inside lists an integer does not equal a float:

```yaml
evaluators:
  - tool_trajectory:
      mode: any_order
      matcher: {case_insensitive: true, ignored_characters: " ,./-_*^", typed_lists: true}
```
"""
_TAU = """\

## tau-bench, airline

gpt-4o on 25 tasks, four trials each. The reward is 1 if the database at the end, and what the agent says, are as they
should be. Reads may be made or not; what counts is which writes succeeded:

```yaml
evaluators:
  - tool_trajectory:        # exactly the expected writes succeeded
      id: writes
      mode: any_order
      only_succeeded: true
      ignored_tools: [get_*, search_*, list_*, calculate, think, transfer_*]
  - tool_trajectory:        # and the expected reads were made
      id: reads
      mode: superset
      ignored_tools: [calculate, think, transfer_*]
```
"""
_WHY = {
    "simple_function_checker:missing_required": "optional in the gold, required in the tool's schema",
    "parallel_function_checker_no_order:cannot_find_match": "a float of the same value for an integer parameter: the "
    "checker reads the tool's schema",
    "": "optional in the gold; the checker accepts an empty list, too",
}


def page(leaderboard: list[Judged], trials: list[Judged]) -> str:
    return "".join([_HEAD, _BFCL, *_of_bfcl(leaderboard), _TAU, *_of_tau(trials)])


def _of_bfcl(judged: list[Judged]) -> Iterator[str]:
    strict, found = agreement(judged, BFCL_AS_WRITTEN), agreement(judged, BFCL)
    yield "\n| category | rows | agreement | 95 % interval | with the default matcher |\n|---|---|---|---|---|\n"
    for category in [*sorted(filter(None, found)), ""]:
        counts = found[category]
        low, high = wilson(counts.right + counts.wrong, counts.total)
        share = f"{counts.share:.2%} | {low:.2%} to {high:.2%} | {strict[category].share:.2%}"
        yield f"| {category or '**all**'} | {counts.total:,} | {share} |\n"
    yield from _disagreements(found[""])


def _disagreements(found: Agreement) -> Iterator[str]:
    sides = (("passes here, invalid there", found.passed_alone), ("fails here, valid there", found.failed_alone))
    yield "\n| disagreement | rows | why | example |\n|---|---|---|---|\n"
    for side, items in sides:
        for problem, alike in sorted(grouped((item.problem, item) for item in items).items()):
            example = _cut(_calls(alike[0]))
            named = f"{side} (`{problem}`)" if problem else side
            yield f"| {named} | {len(alike)} | {_WHY.get(problem, 'not looked into')} | {example} |\n"


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
    tasks = Counter(item.name for item in counts.passed_alone), Counter(item.name for item in counts.failed_alone)
    listed = [", ".join(f"task {name} ({n})" for name, n in found.items()) or "none" for found in tasks]
    yield f"\nWith both, passes without a reward: {listed[0]}. The reward reads what the agent says, too, which "
    yield f"no call shows. Fails with a reward: {listed[1]}: other reads led to the same writes.\n"
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bfcl", type=Path, default=DATA / "bfcl.jsonl.gz", help="rows of the leaderboard")
    parser.add_argument("--tau", type=Path, default=DATA / "tau-airline.jsonl.gz", help="rows or trajectories (JSON)")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page to write")
    given = parser.parse_args()
    given.out.write_text(page(list(bfcl(given.bfcl)), list(tau(given.tau))), "utf-8")
    print(f"wrote {given.out}")


if __name__ == "__main__":
    main()
