"""The JSON Schema of suite files, for editors: `suite.schema.json` in this directory, written by `make schema`."""

from __future__ import annotations

import json
from importlib.resources import files

from ..suite_fields import Schema


def shipped_schema() -> str:
    """The text of `suite.schema.json`."""
    return files(__package__).joinpath("suite.schema.json").read_text("utf-8")


def suite_schema() -> Schema:
    """The schema of a suite file with the built-in evaluators, in draft 7."""
    schema: Schema = json.loads(shipped_schema())
    return schema
