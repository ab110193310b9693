"""Suite files: read, checked and written.

The smallest form, as YAML or JSON:

    suite: orders
    evaluators: [tool_error, {tool_trajectory: {mode: in_order, threshold: 1.0}}]
    cases:
      - id: status
        turns:
          - user: Where is order ORD-1001?
            expect: {tool_calls: [{name: lookup_order, arguments: {order_id: ORD-1001}}]}

`model` declares every key once; `parsing`, `writing`, `lint` and the JSON Schema follow from it.
"""

from .agent_defaults import AgentDefaults
from .evaluator_spec import EvaluatorSpec
from .files import SuiteError
from .model import Case, CaseTurn, Expectation, Suite
from .parsing import load_suite, parse_case, parse_suite

__all__ = [
    "AgentDefaults",
    "Case",
    "CaseTurn",
    "EvaluatorSpec",
    "Expectation",
    "Suite",
    "SuiteError",
    "load_suite",
    "parse_case",
    "parse_suite",
]
