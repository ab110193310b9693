"""Packages of an environment, and no others: what a requirement brings, without an installation."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTENSION = Path(__file__).parents[2] / "extension"


def link(folder: Path, requirements: Iterable[Requirement], find: Callable[[str], Distribution] = distribution) -> Path:
    """The folder, with links to the packages of `requirements` and of all that these require. `find` gives the
    distribution of a name. Raises PackageNotFoundError."""
    found = [(one.name, extra) for one in requirements for extra in ("", *one.extras)]
    for name, extra in found:
        for requirement in map(Requirement, find(name).requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                needed = [(requirement.name, own) for own in ("", *requirement.extras)]
                found += [one for one in needed if one not in found]
    for package in {name for name, _ in found}:
        for entry in {file.parts[0] for file in find(package).files or ()} - {".."}:
            linked = folder / entry
            if not linked.exists():  # distributions share namespace packages
                linked.symlink_to(find(package).locate_file(entry))
    return folder


def brought_by(extra: str) -> list[Requirement]:
    """What the extra of the extension requires."""
    content = tomllib.loads((EXTENSION / "pyproject.toml").read_text("utf-8"))
    return [Requirement(line) for line in content["project"]["optional-dependencies"][extra.replace("_", "-")]]


def beside_the_extension(folder: Path, python: Path, requirements: Iterable[Requirement]) -> dict[str, str]:
    """The variables with which an interpreter that runs with `-S` sees the extension of this checkout, and of the
    packages in the environment of `python` those that `requirements` bring."""
    (site,) = python.parents[1].glob("lib/python*/site-packages")
    present = {canonicalize_name(one.name): one for one in distributions(path=[str(site)])}
    link(folder, requirements, lambda name: present[canonicalize_name(name)])
    return {"PYTHONPATH": f"{folder}:{EXTENSION}"}
