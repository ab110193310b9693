"""Which of several agents a request is about: the one that the parameter `agent` names."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from tool_call_evaluators.options import did_you_mean

from ..scoring.agent_scoring import Scoring
from .api_operation import ApiParameter
from .control import Control

AGENT = ApiParameter(
    "agent",
    "Name of one of several agents, whose suite is meant. Required where they have different suites",
    {"type": "string", "maxLength": 1000},
)
_MOST_NAMES = 20


def known_agent(control: Control, name: str) -> str:
    """The name, which one of several agents in force has. Raises HTTPException (400), which says what to choose."""
    names = control.agent_names
    if name not in names:
        hint = did_you_mean(name, names) or f": {_listed(control)}"
        raise HTTPException(400, f"agent: there is no agent {name[:100]!r}{hint}")
    return name


def scoring_for(control: Control, name: str | None) -> Scoring:
    """Those of the agent with this name; None: those that all agents have. Raises HTTPException (400)."""
    if name is not None:
        return control.scorings[known_agent(control, name)]
    first, *others = control.every_scoring
    if others:
        raise HTTPException(400, f"agent: required, as agents have suites of their own; {_listed(control)}")
    return first


def _listed(control: Control) -> str:
    names = control.agent_names
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    if not names:
        return "one agent is behind this proxy, without a name; leave out `agent`"
    return f"expected one of {', '.join(names[:_MOST_NAMES])}{more}"
