"""Errors of judging, by cause.

    JudgeError
    ├── JudgeNotConfiguredError   the configuration: no judge is configured
    ├── JudgeUnreachableError     the connection: no connection, a timeout, or an HTTP error
    └── JudgeAnswerError          the answer: the judge answered, but the answer is invalid

The messages name the judge and never contain its key.
"""

from __future__ import annotations

from typing import Any

from .usage import Usage


class JudgeError(Exception):
    """There is no verdict; the message says why. `usage` is the cost: invalid answers, and votes that arrived while
    another failed, are billed too."""

    usage: Usage = Usage()

    def costing(self, usage: Usage) -> JudgeError:
        self.usage = usage
        return self

    @property
    def details(self) -> dict[str, Any]:
        """The `details` of an errored result."""
        return {"judge": self.usage.to_dict()} if self.usage.requests else {}


class JudgeNotConfiguredError(JudgeError):
    """No judge is configured, or its configuration is incomplete."""

    exit_code = 2
    """Exit code of a command that ends with this error: bad usage or input."""


class JudgeUnreachableError(JudgeError):
    """The judge could not be reached: no connection, a timeout, or an HTTP error, after all retries."""


class JudgeAnswerError(JudgeError):
    """The judge answered, but its answer is invalid."""
