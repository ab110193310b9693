"""google-adk's function calls: `{"data": {"id", "name", "args"}, "metadata": {"adk_type": "function_call"}}`."""

from ..function_parts import function_dialect
from ..models import ToolCallSource

DIALECT = function_dialect("adk", ToolCallSource.ADK)
