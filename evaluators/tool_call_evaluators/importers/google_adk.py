"""google-adk evalsets (`*.evalset.json`, `*.test.json`), as of google-adk 2.13, and their older list form.

An invocation is a turn: `user_content` is the user message, `intermediate_data.tool_uses` (or the function calls in
`invocation_events`) the expected calls, `final_response` the expected response, kept for the evaluators that read one.
A conversation scenario is a simulated user. Messages of the user in the events of a session are a history.

The criteria in `test_config.json` replace the default one of the evalsets in its folder.
ADK's default requires equal calls in the same order and no others: `tool_trajectory` in mode `strict`. The criterion on
responses (ROUGE) has no equivalent here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..foreign import Importer, Notes, expected_call, unique_ids
from ..gates import Gate
from ..model import ExpectedCall
from ..options import snake_case
from ..simulation.user import MAX_TURNS
from ..suite import Case, CaseTurn, EvaluatorSpec, Expectation, GivenTurn, History, Simulation, Suite
from ..suite.writing import printable_id
from ..suite.yaml_document import Node, read_source
from ..suite_fields import boolean, number, whole_number

_ERROR = EvaluatorSpec("tool_error")
_MAX_TURNS = 20
"""ADK's default for a simulated user."""
_OF_USERS = {
    "model": "`simulated_user` of the suite names the model",
    "model_configuration": "`simulated_user` of the suite has its options",
    "custom_instructions": "the simulated user has our instructions",
}
_AT_RANDOM = ("creation_timestamp", "invocation_id", "duration", "model_duration", "tool_duration", "app_details")
"""What says nothing of the expected behaviour."""
_TRAJECTORY = "tool_trajectory_avg_score"
_MODES = {"EXACT": "strict", "IN_ORDER": "superset", "ANY_ORDER": "superset"}
"""By ADK's match type, whose numbers are their positions. IN_ORDER also needs the order of the names."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """The evaluators of a suite, their limits, and whether the expected calls must be made in their order."""

    evaluators: tuple[EvaluatorSpec, ...] = (EvaluatorSpec("tool_trajectory", {"mode": "strict"}), _ERROR)
    gates: Mapping[str, Gate] = field(default_factory=dict)
    in_order: bool = False
    max_turns: int = _MAX_TURNS
    """Of simulated users."""


def _read_criteria(path: Path, notes: Notes) -> Criteria:
    """The criteria in the file at `path`: `{criteria: {metric: threshold, or {threshold, ...}}}`."""
    if not path.is_file():
        return Criteria()
    config = read_source(path)
    notes.dropped(config, ("criteria", "user_simulator_config"), path.name)
    simulator, kinds = config.get("user_simulator_config", "userSimulatorConfig"), ("type", "max_allowed_invocations")
    most = _MAX_TURNS
    if simulator is not None:
        notes.dropped(simulator, kinds, "user_simulator_config", _OF_USERS)
        if (given_most := simulator.get("max_allowed_invocations", "maxAllowedInvocations")) is not None:
            most = given_most.convert(whole_number(1, MAX_TURNS).read)
    return replace(_evaluators(config.at("criteria").entries(), notes), max_turns=most)


def _evaluators(entries: Mapping[str, Node], notes: Notes) -> Criteria:
    for metric in [name for name in entries if name != _TRAJECTORY]:
        notes.add(f"the criterion {metric} was not imported")
    if _TRAJECTORY not in entries:
        return Criteria((_ERROR,))
    node = entries[_TRAJECTORY]
    if isinstance(node.value, dict):
        threshold = node.need("threshold").convert(number)
        given, ignored = node.get("match_type", "matchType"), node.get("ignore_args", "ignoreArgs")
    else:
        threshold, given, ignored = node.convert(number), None, None
    match_type = "EXACT" if given is None else _match_type(given)
    options: dict[str, Any] = {"mode": _MODES[match_type]}
    if ignored is not None and ignored.convert(boolean):
        options["matcher"] = "ignore"
    in_order = match_type == "IN_ORDER"
    evaluators = [EvaluatorSpec("tool_trajectory", options), *([EvaluatorSpec("tool_call_order")] if in_order else ())]
    gates = {spec.name: Gate(conversation_mean=threshold) for spec in evaluators if threshold < 1}
    return Criteria((*evaluators, _ERROR), gates, in_order)


def _match_type(node: Node) -> str:
    """The name of a match type that is given by name or number."""
    names = tuple(_MODES)
    if node.value in range(len(names)):
        return names[int(node.value)]
    name = node.text().upper()
    if name not in names:
        node.fail(f"expected EXACT, IN_ORDER or ANY_ORDER, got {node.value!r}")
    return name


_FILES = ("inline_data", "inlineData", "file_data", "fileData")


def _recognises(value: Any) -> bool:
    """Whether the value of a document is an evalset, or in the older form a list of cases or of invocations."""
    if isinstance(value, dict):
        return any(isinstance(value.get(key), list) for key in ("eval_cases", "evalCases"))
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(item, dict) and (isinstance(item.get("data"), list) or isinstance(item.get("query"), str))
            for item in value
        )
    )


def read(node: Node, path: Path, notes: Notes) -> Suite:
    """The suite in an evalset. Raises SuiteError."""
    stem = path.name.removesuffix(".json").removesuffix(".evalset").removesuffix(".test")
    criteria = _read_criteria(path.with_name("test_config.json"), notes)
    if isinstance(node.value, list):
        name, cases = stem, _old_cases(node, stem, notes)
    else:
        name = node.text_at("name") or node.text_at("eval_set_id", "evalSetId") or stem
        notes.dropped(node, ("name", "eval_set_id", "description", "eval_cases", *_AT_RANDOM), "the evalset")
        cases = [_case(item, notes, criteria.max_turns) for item in node.need("eval_cases", "evalCases").items()]
    if criteria.in_order:
        cases = [replace(case, turns=tuple(_in_order(turn) for turn in case.turns)) for case in cases]
    return Suite(name=name, evaluators=criteria.evaluators, gates=criteria.gates, cases=unique_ids(cases))


def _in_order(turn: CaseTurn) -> CaseTurn:
    names = tuple(call.name for call in turn.expect.tool_calls or ())
    return replace(turn, expect=replace(turn.expect, tool_calls_order=names or None))


def _case(node: Node, notes: Notes, max_turns: int) -> Case:
    name = printable_id(node.need("eval_id", "evalId").text())
    known = ("eval_id", "session_input", "conversation_scenario", "conversation", *_AT_RANDOM)
    notes.dropped(node, known, "a case")
    given = _history(node.at("session_input", "sessionInput"), notes)
    scenario = node.get("conversation_scenario", "conversationScenario")
    if scenario is not None:
        return Case(id=name, given=given, simulate=_simulated(scenario, notes, max_turns))
    conversation = node.need("conversation")
    turns = tuple(_turn(item, notes) for item in conversation.items())
    if not turns:
        conversation.fail("needs at least one invocation")
    return Case(id=name, given=given, turns=turns)


def _simulated(scenario: Node, notes: Notes, max_turns: int) -> Simulation:
    notes.dropped(scenario, ("starting_prompt", "conversation_plan", "user_persona"), "a scenario")
    persona = scenario.get("user_persona", "userPersona")
    profile = None
    if persona is not None and isinstance(persona.value, str):
        profile = persona.text()  # the id of one of ADK's own personas
    elif persona is not None:
        behaviors = persona.items_at("behaviors")
        rules = [
            rule.text() for item in behaviors for rule in item.items_at("behavior_instructions", "behaviorInstructions")
        ]
        profile = "\n".join([persona.need("description").text(), *rules])
    return Simulation(
        goal=scenario.need("conversation_plan", "conversationPlan").text(),
        opening=scenario.need("starting_prompt", "startingPrompt").text(),
        profile=profile,
        max_turns=max_turns,
    )


_SESSION = ("app_name", "user_id", "session_id")
_WITHOUT = {"state": "the session has none"}


def _history(session: Node, notes: Notes) -> History:
    """The messages of the user in a session that is seeded; the agent answers them itself."""
    notes.dropped(session, (*_SESSION, "events"), "the session input", _WITHOUT)
    events = session.items_at("events")
    said = [_text(event.get("content")) for event in events if event.text_at("author") == "user"]
    turns = tuple(GivenTurn(text) for text in said if text)
    if len(turns) < len(events):
        notes.add("of the events of a session, only the messages of the user were imported: the agent answers them")
    return History(turns=turns)


def _turn(node: Node, notes: Notes) -> CaseTurn:
    known = ("user_content", "intermediate_data", "final_response", *_AT_RANDOM)
    notes.dropped(node, known, "an invocation")
    said = node.need("user_content", "userContent")
    user = _text(said)
    if user is None:
        said.fail("has no text")
    if any(part.get(*_FILES) is not None for part in said.items_at("parts")):
        notes.add("files in user messages were not imported")
    final = node.get("final_response", "finalResponse")
    for part in (part for content in (said, final) if content is not None for part in content.items_at("parts")):
        notes.dropped(part, ("text", *map(snake_case, _FILES)), "a part")
    data = node.get("intermediate_data", "intermediateData")
    return CaseTurn(
        user,
        Expectation(
            tool_calls=None if data is None else _calls(data, notes),
            response=_text(final),
        ),
    )


def _text(content: Node | None) -> str | None:
    """The text parts of a genai Content, one per line."""
    if content is None:
        return None
    parts = content.items_at("parts")
    texts = [text for part in parts if (text := part.text_at("text"))]
    return "\n".join(texts) or None


def _calls(data: Node, notes: Notes) -> tuple[ExpectedCall, ...]:
    """The expected calls; empty if the intermediate data contains none: then no call is expected."""
    notes.dropped(data, ("tool_uses", "invocation_events"), "the intermediate data")
    calls = [expected_call(item, "args", notes=notes) for item in data.items_at("tool_uses", "toolUses")]
    for event in data.items_at("invocation_events", "invocationEvents"):
        content = event.get("content")
        for part in content.items_at("parts") if content is not None else []:
            function_call = part.get("function_call", "functionCall")
            if function_call is not None:
                calls.append(expected_call(function_call, "args", notes=notes))
            notes.dropped(part, ("text", "function_call"), "a part of an event")
    return tuple(calls)


def _old_cases(node: Node, stem: str, notes: Notes) -> list[Case]:
    """`[{name, data: [{query, expected_tool_use, reference}]}]`; or such invocations alone, as one case."""
    items = node.items()
    if not items:
        node.fail("needs at least one case")
    if "query" in items[0].object():
        return [Case(id=printable_id(stem), turns=tuple(_old_turn(item, notes) for item in items))]
    cases = []
    for item in items:
        notes.dropped(item, ("name", "data", "initial_session"), "a case")
        given = _history(item.at("initial_session"), notes)
        data = item.need("data")
        turns = tuple(_old_turn(turn, notes) for turn in data.items())
        if not turns:
            data.fail("needs at least one invocation")
        cases.append(Case(id=printable_id(item.need("name").text()), given=given, turns=turns))
    return cases


def _old_turn(node: Node, notes: Notes) -> CaseTurn:
    notes.dropped(node, ("query", "expected_tool_use", "reference"), "an invocation")
    calls = []
    for item in node.items_at("expected_tool_use"):
        named = {"name": item.need("tool_name").value, "args": item.object().get("tool_input")}
        calls.append(expected_call(Node(item.document, named, item.path), "args"))
    user = node.need("query").text()
    return CaseTurn(user, Expectation(tool_calls=tuple(calls), response=node.text_at("reference")))


IMPORTER = Importer(
    files="a google-adk evalset (`eval_cases`)",
    recognises=_recognises,
    read=read,
)
