"""Suites from the formats of other tools: the format is detected or given.

    imported = import_suite("scenarios.json")
    imported.suite, imported.format, imported.notes

Suite files of this project are accepted too. Each format has the room of its tool, listed in `formats`. The names
exported here are public.
"""

from .folders import ImportedSuites, import_suites, suite_files
from .formats import FORMATS, Imported, import_suite, import_text

__all__ = ["FORMATS", "Imported", "ImportedSuites", "import_suite", "import_suites", "import_text", "suite_files"]
