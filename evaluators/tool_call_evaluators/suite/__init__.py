"""Suite files: read, checked and written.

    suite: orders
    evaluators: [tool_error, {tool_trajectory: {mode: in_order, threshold: 1.0}}]
    cases:
      - id: status
        turns:
          - user: Where is order ORD-1001?
            expect: {tool_calls: [{name: lookup_order, arguments: {order_id: ORD-1001}}]}

`model` declares every key once; `parsing`, `writing`, `lint` and the JSON Schema follow from that. A *document* is YAML
or JSON, a *node* a value in it, whose errors name its position. *Lint* finds expectations that no evaluator reads.
"""

from ..simulation.user import Simulation
from .model import AgentDefaults, Case, CaseTurn, EvaluatorSpec, Expectation, GivenTurn, History, Suite
from .parsing import load_suite, parse_case, parse_suite
from .yaml_document import SuiteError

__all__ = [
    "AgentDefaults",
    "Case",
    "CaseTurn",
    "EvaluatorSpec",
    "Expectation",
    "GivenTurn",
    "History",
    "Simulation",
    "Suite",
    "SuiteError",
    "load_suite",
    "parse_case",
    "parse_suite",
]
