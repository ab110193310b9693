"""No value, wherever in a suite it stands, ends in anything but a suite or a SuiteError that names its place."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import yaml
from tool_call_evaluators import SuiteError, parse_suite

SUITE = yaml.safe_load("""
suite: orders
evaluators:
  - tool_error
  - tool_trajectory: {mode: in_order, threshold: 1.0, matcher: {mode: subset, per_tool: {search: ignore}}}
  - tool_call_count: {tool_calls_count: {lookup_order: ['>', 1]}}
  - tool_call_output: {tool_outputs: [{name: lookup_order, output: sent}]}
  - tool_call_order: {tool_calls_order: [lookup_order]}
gates: {tool_error: {mean: 0.5, forbid: [lie]}, findings: {error: 0}, captured: 0.5, pass_rate: 1}
tolerate: [errored]
judge: {model: some-model, prices: {input: 1, output: 2}, extra_body: {seed: 7}, votes: 3}
tools: [{name: lookup_order, description: Finds., parameters: {type: object, properties: {id: {type: string}}}}]
cases:
  - id: status
    repeat: 2
    tasks: [find it]
    constraints: [be brief]
    knowledge: Orders are sent.
    evaluators: [{tool_call_count: {tool_calls_count: {lookup_order: ['=', 1]}}}]
    turns:
      - user: Where is it?
        expect:
          response: Sent.
          tool_calls:
            - name: lookup_order
              arguments: {a: {$type: [string]}, b: {$regex: x}, c: {$approx: 1, tolerance: 2}, d: {$any: true}}
""")
ODD = [
    *(None, True, 0, -1, 1.5, float("inf"), float("nan"), 10**400, "", "x", [], [[]], [{}], [None], {}, {"a": 1}),
    *({"$type": [{}]}, {"$type": [[]]}, {"$type": {}}, {"$type": []}, {"$regex": {}}, {"$regex": "("}, {"$any": []}),
    *({"$approx": "x"}, {"$approx": 10**400}, {"$approx": 1, "tolerance": []}, {"$approx": 1, "tolerance": 10**400}),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def with_value(path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = deepcopy(SUITE)
    around = changed
    for key in path[:-1]:
        around = around[key]
    around[path[-1]] = value
    return changed


def read(value: Any) -> None:
    try:
        suite = parse_suite(yaml.dump(value, Dumper=yaml.CSafeDumper))
    except SuiteError:
        return
    for case in suite.cases:
        suite.build_evaluators("turn", case)
        suite.build_evaluators("conversation", case)


def test_an_odd_value_anywhere() -> None:
    for path in places(SUITE):
        for value in ODD:
            read(with_value(path, value))
