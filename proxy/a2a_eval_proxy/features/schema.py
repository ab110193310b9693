from __future__ import annotations

from ..cli.command import command
from ..cli.output import JsonOutput
from ..feature import Feature
from ..settings.options import Options


class SchemaOptions(Options):
    pass


@command(SchemaOptions)
def schema(options: SchemaOptions) -> None:
    """Print the JSON Schema of suite files, for editors.

    An editor with a YAML language server completes and checks a suite whose first line names the file:
    # yaml-language-server: $schema=suite.schema.json

    \b
    Example: a2a-eval-proxy schema > suite.schema.json
    """
    from tool_call_evaluators.suite.schema import schema_text

    JsonOutput().write(schema_text())


FEATURE = Feature(commands=[schema])
