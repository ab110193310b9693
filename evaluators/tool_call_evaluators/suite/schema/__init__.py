"""The JSON Schema of suite files, for editors: `suite.schema.json` in this directory, written by `python -m`.

python -m tool_call_evaluators.suite.schema > suite.schema.json
"""

from importlib.resources import files

from .generate import suite_schema

__all__ = ["shipped_schema", "suite_schema"]


def shipped_schema() -> str:
    """The text of `suite.schema.json`."""
    return files(__name__).joinpath("suite.schema.json").read_text("utf-8")
