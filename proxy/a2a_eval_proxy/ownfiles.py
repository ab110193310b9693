"""Files that only their owner may read: what agents say is nobody else's business."""

from __future__ import annotations

from pathlib import Path


def write_own(path: Path, text: str) -> None:
    """Write `text` (UTF-8) to a file with mode 0600, also where it was there with another. Raises OSError."""
    path.touch(0o600)
    path.chmod(0o600)
    path.write_text(text, "utf-8")
