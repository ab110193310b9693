"""The instructions of a simulated user: a prompt filled with a scenario."""

from __future__ import annotations

import re

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


def user_prompt(own: str | None) -> Prompt:
    """The prompt of the package, or the suite's own. Raises OptionError for an own one with unknown places."""
    if own is None:
        return load_prompt("simulated_user")
    if "{%" in own:
        raise OptionError("simulated_user: option prompt may hold places such as {{goal}}, but no {% ... %}", "prompt")
    names = [_ALIASES.get(name, name) for name in _PLACE.findall(own)]
    for name in names:
        if name not in PLACES:
            raise OptionError(
                f"simulated_user: option prompt: unknown {{{{{name}}}}}{or_known(name, PLACES)}", "prompt"
            )
    if "goal" not in names:
        raise OptionError("simulated_user: option prompt must hold {{goal}}, else the user does not know it", "prompt")
    return Prompt(_CUSTOM, "1", own)


def instructions_for(scenario: Simulation, prompt: Prompt) -> str:
    """`prompt` with the places filled. Texts of the scenario are not searched for places."""
    values = {
        "goal": scenario.goal,
        "profile": scenario.profile,
        "knowledge": "\n\n".join(scenario.knowledge),
        "context": scenario.context,
        "stop": GOAL_REACHED,
        "give_up": GAVE_UP,
    }
    return _PLACE.sub(lambda place: values[_ALIASES.get(place[1], place[1])] or _NOTHING, prompt.text)
