"""Writes the schema to standard output, or with `--update` to the shipped file."""

from __future__ import annotations

import sys
from pathlib import Path

from .generate import schema_text

if "--update" in sys.argv[1:]:
    Path(__file__).with_name("suite.schema.json").write_text(schema_text(), "utf-8")
else:
    sys.stdout.write(schema_text())
