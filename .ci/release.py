"""What a release needs besides files: `python .ci/release.py check v0.1.0`, `python .ci/release.py notes v0.1.0`.

`check` compares a tag with everything that states the version, and exits with 1 and what to do where they differ.
`notes` prints the section of the changelog. Standard library only.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACES = {
    "extension/a2a_tool_capture/__init__.py": r'^__version__ = "(.+)"$',
    "deploy/Dockerfile": r"^ARG VERSION=(.+)$",
    "deploy/helm/a2a-eval-proxy/Chart.yaml": r"^version: (.+)$",
    "deploy/helm/a2a-eval-proxy/Chart.yaml ": r"^appVersion: (.+)$",
    "CHANGELOG.md": r"^## (\d\S*) ",
}
"""The first match in each file is the version."""


def problems(root: Path, tag: str, today: dt.date) -> list[str]:
    """What stands in the way of releasing `tag`, each with what to do."""
    version = tag.removeprefix("v")
    found = [f"{tag} is no tag of a version: write it as v1.2.3"] if not re.fullmatch(r"v\d+\.\d+\.\d+", tag) else []
    for place, pattern in PLACES.items():
        match = re.search(pattern, (root / place.strip()).read_text("utf-8"), re.MULTILINE)
        stated = match[1] if match else "no version"
        if stated != version:
            found.append(f"{place.strip()} states {stated}, not {version}: change it")
    heading = next(re.finditer(r"^## .*$", (root / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE))[0]
    if heading != f"## {version} ({today.isoformat()})":
        found.append(f"CHANGELOG.md begins with '{heading}': write '## {version} ({today.isoformat()})'")
    if "[project.urls]" not in (root / "pyproject.toml").read_text("utf-8"):
        found.append("pyproject.toml names no repository: fill in what releases.md lists")
    if "pip install ./a2a-eval-proxy" in (root / "README.md").read_text("utf-8"):
        found.append("README.md installs from a checkout: write 'pip install a2a-eval-proxy' in its place")
    return found


def notes(root: Path, tag: str) -> str:
    """The section of the changelog for `tag`, without its heading. Raises ValueError where there is none."""
    sections = re.split(r"^## ", (root / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)[1:]
    for section in sections:
        heading, _, text = section.partition("\n")
        if heading.split()[0] == tag.removeprefix("v"):
            return text.strip() + "\n"
    raise ValueError(f"CHANGELOG.md has no section for {tag}")


def main(arguments: list[str]) -> int:
    match arguments:
        case ["check", tag]:
            found = problems(ROOT, tag, dt.datetime.now(dt.UTC).date())
            print("\n".join(found) or f"{tag} can be released")
            return 1 if found else 0
        case ["notes", tag]:
            print(notes(ROOT, tag), end="")
            return 0
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
