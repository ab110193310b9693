"""The outcomes of a run by case, and the changes between two runs.

*Outcomes* match turns with the suite's cases. A *comparison* finds changed calls, scores and cases; *regression* tests
whether a drop is significant. *Recording* creates a suite from the turns of an agent known to be good. The names
exported here are public.
"""

from .comparison import compare
from .conversations import follow, run_verdict
from .recording import record_suite

__all__ = [
    "compare",
    "follow",
    "record_suite",
    "run_verdict",
]
