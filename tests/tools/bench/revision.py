"""Which code was measured, whether it stayed the same meanwhile, and its other revisions."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = ("extension", "evaluators", "proxy")


class UnknownRevisionError(ValueError):
    """What is to be measured is neither a folder nor a revision."""


def revision() -> str:
    """The commit, with `-dirty` where the working tree differs from it; "unknown" outside a git repository."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def fingerprint(root: Path = ROOT) -> str:
    """Digest of every Python file of the packages: differs once any of them has changed."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def environment_of(tree: Path | None) -> dict[str, str]:
    """What makes a Python process import the packages in `tree`; None: those that are installed."""
    return {} if tree is None else {"PYTHONPATH": os.pathsep.join(str(tree / name) for name in PACKAGES)}


def checked_out(name: str, folder: Path) -> Path:
    """The folder `name`, or a copy of that revision's packages in `folder`. Raises UnknownRevisionError."""
    if Path(name).is_dir():
        return Path(name).resolve()
    done = subprocess.run(["git", "-C", str(ROOT), "archive", name, *PACKAGES], capture_output=True, check=False)
    if done.returncode:
        raise UnknownRevisionError(f"{name} is no folder and no revision: {done.stderr.decode().strip()}")
    tree = folder / "checked-out"
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(tree, filter="data")
    return tree
