"""Names of the bands of grades from 1 to 5."""

from __future__ import annotations

GRADES = (1.0, 5.0)

_FROM = {4.0: "Excellent", 3.0: "Good", 2.0: "Needs Improvement"}


def band(score: float | None, scale: tuple[float, float]) -> str | None:
    """arksim's name for a grade or a mean of grades; None on a scale other than 1 to 5, or without a score."""
    if score is None or scale != GRADES:
        return None
    return next((name for least, name in _FROM.items() if score >= least), "Poor")
