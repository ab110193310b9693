"""kagent's function calls: google-adk's, whose type it names under `kagent_type`."""

from ..function_parts import function_dialect
from ..models import ToolCallSource

DIALECT = function_dialect("kagent", ToolCallSource.KAGENT)
