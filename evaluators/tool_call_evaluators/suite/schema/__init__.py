"""The JSON Schema of suite files, for editors: `suite.schema.json` in this directory, written by `python -m`.

python -m tool_call_evaluators.suite.schema > suite.schema.json
"""

from .generate import suite_schema

__all__ = ["suite_schema"]
