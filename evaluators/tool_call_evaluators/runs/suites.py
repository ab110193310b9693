"""The verdict on a run of several suites: each judges its own cases, and all must pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..outcome import Reason
from ..suite import Suite
from ..verdict import Verdict
from .outcomes import RunConversation, run_verdict


def verdict_of_suites(
    whole: Suite, conversations: Sequence[RunConversation], parts: Sequence[tuple[str, Verdict]]
) -> Verdict:
    """The verdict on the `conversations` of all suites: the reasons and gates of each, by the names of the suites.

    `whole` is what `combined` returns: the metrics count the results of all suites.
    """
    return Verdict(
        tuple(_named(reason, name) for name, verdict in parts for reason in verdict.reasons),
        tuple(_named(reason, name) for name, verdict in parts for reason in verdict.tolerated),
        run_verdict(whole, conversations).metrics,
        tuple(replace(check, label=f"{check.label} ({name})") for name, verdict in parts for check in verdict.gates),
    )


def _named(reason: Reason, suite: str) -> Reason:
    """With the name of the suite, where no place names it."""
    return reason if reason.where is not None else replace(reason, message=f"{suite}: {reason.message}")
