"""Suites from the formats of other tools: the format is detected, or named.

    imported = import_suite("scenarios.json")
    imported.suite, imported.format, imported.notes

Our own suite files are read too. One module a format; a new one is listed in `formats`. What is exported here is
public.
"""

from .formats import FORMATS, Imported, import_suite, import_text

__all__ = ["FORMATS", "Imported", "import_suite", "import_text"]
