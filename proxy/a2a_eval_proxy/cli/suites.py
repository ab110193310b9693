"""`run` and `evaluate`: they score with suites."""

from __future__ import annotations

from .command import command, run_async
from .options import EvaluateOptions, RunOptions


@command(RunOptions)
def run(options: RunOptions) -> bool:
    """Send the cases of each SUITE to an agent and score every turn.

    SUITE is a file, or a folder with suites. Several make one run, which passes if each of them does.

    The exit code says whether the run passed. What does not run counts as failed: a case without a response, an
    evaluator with an error, a metric that was never measured.

    \b
    Example: a2a-eval-proxy run suite.yaml --agent http://127.0.0.1:9999 --report report
    """
    from .run_display import run_and_show

    return run_async(run_and_show(options))


@command(EvaluateOptions)
def evaluate(options: EvaluateOptions) -> bool:
    """Score stored turns again with suites, without an agent.

    The exit code says whether they passed. With --report, writes the report of a run that is stored.

    \b
    Example: a2a-eval-proxy evaluate --run monday --suite suite.yaml --report report
    """
    from .run_display import evaluate_and_show

    return run_async(evaluate_and_show(options))
