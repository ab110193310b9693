"""What people say of turns and their results: kept next to the turns, deleted with them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MOST_OF_A_TURN = 20
"""Annotations of one turn."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """A person's assessment, "right" or "wrong", of a turn, or of the result of one `evaluator`.

    `score`, `passed` and `version` are those of that result when it was assessed. Times are RFC 3339. Ids ascend with
    time.
    """

    annotation_id: str
    turn_id: str
    assessment: str
    note: str
    who: str
    at: str
    evaluator: str | None = None
    score: float | None = None
    passed: bool | None = None
    version: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as in the `annotations` of a turn."""
        return asdict(self)


INSERT = (
    "INSERT INTO annotations (annotation_id, turn_id, body)"  # noqa: S608  # fixed texts
    " SELECT CAST(:annotation_id AS TEXT), turn_id, CAST(:body AS TEXT) FROM turns WHERE turn_id = :turn_id"
    f" AND (SELECT count(*) FROM annotations WHERE annotations.turn_id = turns.turn_id) < {MOST_OF_A_TURN}"
)
DELETE = "DELETE FROM annotations WHERE annotation_id = :annotation_id AND turn_id = :turn_id"


def of_turn(join: str) -> str:
    """Selects the annotations of a turn as a JSON list; `join` is the aggregate that concatenates texts."""
    return f"(SELECT '[' || {join}(a.body, ',') || ']' FROM annotations AS a WHERE a.turn_id = turns.turn_id)"  # noqa: S608  # fixed texts
