"""Why there is no verdict, by whose fault it is.

    JudgeError
    ├── JudgeNotConfiguredError   ours: nobody said which judge to ask
    ├── JudgeUnreachableError     the way to the judge: no connection, no answer in time, a refusing server
    └── JudgeAnswerError          the judge's: it answered, and the answer cannot be used

The messages name the judge and never hold its key.
"""

from __future__ import annotations

from typing import Any

from .usage import Usage


class JudgeError(Exception):
    """There is no verdict; the message says why, `usage` what it cost all the same: answers that cannot be used, and
    votes that came while another failed, are paid for too."""

    usage: Usage = Usage()

    def costing(self, usage: Usage) -> JudgeError:
        """This error, having cost that."""
        self.usage = usage
        return self

    @property
    def details(self) -> dict[str, Any]:
        """For the `details` of an errored result."""
        return {"judge": self.usage.to_dict()} if self.usage.requests else {}


class JudgeNotConfiguredError(JudgeError):
    """Nobody said which judge to ask."""


class JudgeUnreachableError(JudgeError):
    """The judge could not be asked: no connection, no answer in time, or an HTTP error, retries included."""


class JudgeAnswerError(JudgeError):
    """The judge answered, and its answer cannot be used."""
