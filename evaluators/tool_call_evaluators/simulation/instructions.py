"""The instructions of a simulated user: a prompt filled with a scenario."""

from __future__ import annotations

import re
from typing import Any

from ..judge.prompt import Prompt, load_prompt
from ..options import OptionError, or_known
from .scenario import Simulation

GOAL_REACHED, GAVE_UP = "###STOP###", "###GIVE-UP###"
"""Messages of the model that end the conversation and are not sent. The first is that of arksim's prompts."""
_CUSTOM = "custom"
_NOTHING = "(not given)"

_PLACE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_ALIASES = {
    "scenario.goal": "goal",
    "scenario.user_profile": "profile",
    "scenario.knowledge": "knowledge",
    "scenario.agent_context": "context",
}
"""Names of arksim's prompts."""
PLACES = ("goal", "profile", "knowledge", "context", "stop", "give_up")
_EXAMPLE = Simulation(goal="the goal of the user", knowledge=("something",))


def user_prompt(own: str | None) -> Prompt:
    """The prompt of the package, or the suite's own. Raises OptionError for an own one that cannot be filled."""
    if own is None:
        return load_prompt("simulated_user")
    prompt = Prompt(_CUSTOM, "1", own)
    if _EXAMPLE.goal not in instructions_for(_EXAMPLE, prompt):
        raise OptionError("simulated_user: option prompt must hold {{goal}}, else the user does not know it", "prompt")
    return prompt


def instructions_for(scenario: Simulation, prompt: Prompt) -> str:
    """`prompt` with the places filled. Texts of the scenario are not searched for places. Raises OptionError."""
    if "{%" in prompt.text:
        return _of_template(scenario, prompt.text)
    values = _values(scenario)

    def value(place: re.Match[str]) -> str:
        name = _ALIASES.get(place[1], place[1])
        if name not in values:
            raise OptionError(
                f"simulated_user: option prompt: unknown {{{{{name}}}}}{or_known(name, PLACES)}", "prompt"
            )
        return values[name] or _NOTHING

    return _PLACE.sub(value, prompt.text)


def _of_template(scenario: Simulation, text: str) -> str:
    """The text of a Jinja template with arksim's variables. Knowledge that it leaves out is added: arksim gives several
    items turn by turn."""
    from jinja2 import TemplateError, sandbox  # few suites have templates, and importing it takes time

    scenario_values: dict[str, Any] = {
        "goal": scenario.goal,
        "user_profile": scenario.profile or "",
        "agent_context": scenario.context or "",
        "knowledge": [{"content": item} for item in scenario.knowledge],
    }
    try:
        template = sandbox.SandboxedEnvironment().from_string(text)
        filled: str = template.render({**_values(scenario), "scenario": scenario_values})
    except (TemplateError, ArithmeticError, TypeError, ValueError) as error:
        raise OptionError(f"simulated_user: option prompt: {type(error).__name__}: {error}", "prompt") from None
    left_out = [item for item in scenario.knowledge if item not in filled]
    return "\n\n".join([filled, *(["Reference knowledge:"] if left_out else []), *left_out])


def _values(scenario: Simulation) -> dict[str, str | None]:
    return {
        "goal": scenario.goal,
        "profile": scenario.profile,
        "knowledge": "\n\n".join(scenario.knowledge),
        "context": scenario.context,
        "stop": GOAL_REACHED,
        "give_up": GAVE_UP,
    }
