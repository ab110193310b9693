"""What spans show besides calls: the work of an agent, and whether calls would have been seen. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from .conventions import recognise
from .model import Span

_WORK = ("gen_ai.", "openinference.", "llm.", "traceloop.", "langsmith.", "langfuse.", "ai.", "mcp.", "tool.")
"""Beginnings of the attributes by which tool spans of any convention, and model calls, describe an agent's work."""

_AGENT = (
    ("gen_ai.operation.name", "invoke_agent"),
    ("openinference.span.kind", "AGENT"),
    ("traceloop.span.kind", "agent"),
    ("langfuse.observation.type", "agent"),
)
"""Attribute and value of spans of an agent's run."""

_OFFERS = ("gen_ai.tool.definitions", "llm.request.functions.", "llm.tools.", "ai.prompt.tools")
"""Beginnings of the attributes by which a model call shows the tools that the model may ask for."""

_OUTPUTS = ("gen_ai.output.messages", "gen_ai.response.finish_reasons", "gen_ai.completion.", "llm.output_messages.",
            "ai.response.")  # fmt: skip
"""Beginnings of the attributes by which it shows whether the model asked for one."""

_WITHOUT_TOOLS = ("instrumentation.crewai", "instrumentation.genai.smolagents")
"""Parts of the scopes of instrumentations that show agents, and never all of their tool calls."""


def shows_work(span: Span) -> bool:
    """Whether `span` is of an agent, a model or a tool at all: not of the HTTP around them."""
    return any(attribute.startswith(_WORK) for attribute in span.attributes)


def shows_genai_work(spans: Sequence[Span]) -> bool:
    """Whether one of `spans` is a tool call, an agent's run, or a call of a model that was offered tools.

    Spans of HTTP, of databases, or of model calls without tools say nothing of tools that the agent may have called
    besides, and neither do those of an instrumentation that shows agents without their tools.
    """
    if any(recognise(span) for span in spans):
        return True
    if any(part in span.scope for span in spans for part in _WITHOUT_TOOLS):
        return False
    return any(_runs_agent(span) or (_has(span, _OFFERS) and _has(span, _OUTPUTS)) for span in spans)


def _runs_agent(span: Span) -> bool:
    return any(span.attributes.get(attribute) == value for attribute, value in _AGENT)


def _has(span: Span, beginnings: tuple[str, ...]) -> bool:
    return any(attribute.startswith(beginnings) for attribute in span.attributes)
