"""The outcomes of a run by case, and the changes between two runs.

*Outcomes* match turns with the suite's cases. A *comparison* finds changed calls, scores and cases; *regression* tests
whether a drop is significant. *Recording* creates a suite from the turns of an agent known to be good. The names
exported here are public; each is imported on first use.

Imported by report and by programs. Imports suite and matching.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .comparison import compare
    from .outcomes import failures, follow, judge, remaining, run_verdict
    from .recording import record_suite

_MODULES = {
    "compare": "comparison",
    "failures": "outcomes",
    "follow": "outcomes",
    "judge": "outcomes",
    "record_suite": "recording",
    "remaining": "outcomes",
    "run_verdict": "outcomes",
}

__all__ = [
    "compare",
    "failures",
    "follow",
    "judge",
    "record_suite",
    "remaining",
    "run_verdict",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
