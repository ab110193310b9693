"""The files of a run: suites that are named one by one, and folders with suites."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..suite import Suite
from ..suite.combined import CombinedSuite, combined
from ..suite.files import read_source
from ..suite.yaml_document import SuiteError
from .formats import import_suite

_SUFFIXES = (".yaml", ".yml")


def suite_files(paths: Iterable[str]) -> tuple[list[str], list[str]]:
    """The files at `paths`, each once; of a folder, the suites directly in it, by name. And the YAML files of the
    folders that are no suites.

    Raises SuiteError for a folder without a suite, and for a YAML file in a folder that cannot be read.
    """
    files: dict[Path, str] = {}
    others: list[str] = []
    for path in paths:
        found = _in_folder(Path(path)) if Path(path).is_dir() else {path: True}
        if not any(found.values()):
            raise SuiteError("the folder has no suite (a .yaml or .yml file with the keys `suite` and `cases`)", path)
        for file, is_suite in found.items():
            if is_suite:
                files.setdefault(Path(file).resolve(), file)
            else:
                others.append(file)
    return list(files.values()), others


@dataclass(frozen=True, slots=True)
class ImportedSuites:
    """The suites of a file or folder as one (see `combined`); `file` is the only one, or else the folder."""

    suite: Suite
    file: str
    notes: Sequence[str]
    """What was not imported, each with its file."""

    @property
    def parts(self) -> Sequence[Suite]:
        return self.suite.parts if isinstance(self.suite, CombinedSuite) else [self.suite]


def import_suites(path: str, *, allow_plugins: bool = False) -> ImportedSuites:
    """The suites at `path`. Raises as `suite_files`, `import_suite` and `combined` do."""
    files, others = suite_files([path])
    imported = {file: import_suite(file, allow_plugins=allow_plugins) for file in files}
    notes = [f"{file}: not imported: {note}" for file, item in imported.items() for note in item.notes]
    notes += [f"{file} is skipped: it is not a suite" for file in others]
    suite = combined([item.suite for item in imported.values()], files)
    return ImportedSuites(suite, files[0] if len(files) == 1 else path, notes)


def _in_folder(folder: Path) -> dict[str, bool]:
    """The YAML files of the folder, and whether each is a suite."""
    try:
        names = sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES and path.is_file())
    except OSError as error:
        raise SuiteError(f"cannot be read: {error.strerror or error}", str(folder)) from None
    return {str(path): _is_suite(read_source(path).value) for path in names}


def _is_suite(value: object) -> bool:
    """A file of settings may have a key `suite`, too."""
    return isinstance(value, dict) and "suite" in value and not value.keys().isdisjoint(("cases", "evaluators"))
