"""A simulated user without a model: what it sends, when it ends, which of its messages are faults, who plays it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tool_call_evaluators import OptionError, SuiteError, parse_suite
from tool_call_evaluators.judge import JudgeSettings
from tool_call_evaluators.simulation.settings import SimulatedUserSettings
from tool_call_evaluators.simulation.user import (
    GAVE_UP,
    GOAL_REACHED,
    MAX_MESSAGE,
    USER_FAULTS,
    SimulatedUser,
    instructions_for,
    user_prompt,
)
from tool_call_evaluators.suite import Simulation

GOAL = "Get the money back for order ORD-1005."


def user(**fields: Any) -> SimulatedUser:
    scenario = Simulation(**{"goal": GOAL, "max_turns": 3, **fields})
    prompt = user_prompt(None)
    return SimulatedUser(scenario, instructions_for(scenario, prompt), str(prompt), frozenset({"issue_refund"}))


def talk(user: SimulatedUser, replies: list[str], answers: list[tuple[str, bool]]) -> list[str]:
    """What is sent when the model writes these replies and the agent gives these answers, the last one ever after."""
    sent = []
    opening = user.opening()
    for turn in range(1_000):
        if opening is None:
            if user.end:
                break
            index = len(user.replies)
            if index >= len(replies):
                user.unanswered("nothing more")
                break
            message = user.reply(replies[index])
            if message is None:
                break
        else:
            message, opening = opening, None
        sent.append(message)
        text, failed = answers[min(turn, len(answers) - 1)]
        user.hear(text, failed=failed)
    return sent


WORDS = st.sampled_from(
    ["Hello there", "yes", "", "  ", "I want my money back for it", GOAL_REACHED, f"Thanks {GOAL_REACHED}", GAVE_UP,
     "How can I help you?", "ORD-9999", "Goodbye", "As an AI I cannot", "issue_refund", "<think>hm</think>ok then"]
)  # fmt: skip
REPLIES = st.lists(WORDS | st.text(max_size=30), max_size=12)
ANSWERS = st.lists(st.tuples(WORDS | st.text(max_size=60), st.booleans()), min_size=1, max_size=12)


@given(REPLIES, ANSWERS, st.integers(1, 6), st.sampled_from([None, "Hi"]), st.sampled_from([None, "Goodbye"]))
@example(["Hello there", "And now?", GOAL_REACHED], [("fine", False)], 2, None, None)
def test_it_ends_within_its_turns_with_at_most_one_fault_and_repeats_itself_exactly(
    replies: list[str], answers: list[tuple[str, bool]], most: int, opening: str | None, stop: str | None
) -> None:
    first = user(max_turns=most, opening=opening, stop=stop)
    sent = talk(first, replies, answers)
    assert len(sent) == first.sent <= most
    assert all(message.strip() for message in sent)
    assert first.end is not None
    assert (first.fault is not None) == (first.end in ("fault", "no_end"))
    assert first.fault is None or first.fault.code in USER_FAULTS
    assert first.reply("anything") is None
    assert len(first.replies) <= most + 1

    again = user(max_turns=most, opening=opening, stop=stop)
    assert talk(again, first.replies, answers) == sent
    assert (again.end, again.fault, again.replies) == (first.end, first.fault, first.replies)


@pytest.mark.parametrize(
    ("replies", "answer", "end", "sent"),
    [
        (["Hello", GOAL_REACHED], ("Well", False), "goal_reached", 1),
        (["Hello", f"Thanks! {GOAL_REACHED}"], ("Well", False), "goal_reached", 1),
        (["Hello", GAVE_UP], ("Well", False), "gave_up", 1),
        (["Hello", "Have a nice DAY, bye"], ("Well", False), "stop", 1),
        (["Hello", "and", "so", GOAL_REACHED], ("Well", False), "goal_reached", 3),
        (["Hello", "More"], ("It is done. Have a nice day!", False), "stop", 1),
        (["Hello", "More"], ("oops", True), "agent_failed", 1),
        (["x" * (MAX_MESSAGE + 5), GOAL_REACHED], ("Well", False), "goal_reached", 1),
    ],
)
def test_how_a_conversation_ends_without_a_fault(
    replies: list[str], answer: tuple[str, bool], end: str, sent: int
) -> None:
    it = user(stop="have a nice day")
    said = talk(it, replies, [answer])
    assert (len(said), it.end, it.fault) == (sent, end, None)
    assert max(map(len, said)) <= MAX_MESSAGE


def fault_of(*replies: str, answers: str = "Which order?", **fields: Any) -> str | None:
    it = user(max_turns=9, **fields)
    talk(it, [*replies, GOAL_REACHED], [(answers, False)])
    return it.fault and it.fault.code


LONG_ANSWER = "Your order has been sent today and it arrives by tomorrow evening."


@pytest.mark.parametrize(
    ("replies", "code"),
    [
        (["Hello", ""], "user_empty"),
        (["<think>What now?</think>"], "user_empty"),
        ([GOAL_REACHED], "user_empty"),
        (["How can I help you today?"], "user_out_of_role"),
        (["Hello", "Assistant: Your order is on its way."], "user_out_of_role"),
        (["As an AI language model, I cannot want anything."], "user_out_of_role"),
        (["Hello", "Is there anything else I can help you with?"], "user_out_of_role"),
        (["Where is my money now?", "where is my money now"], "user_repeats"),
        (["Hello", "Hello", "Hello!"], "user_repeats"),
        (["Hello", "It is ORD-2002."], "user_knows_too_much"),
        (["My number is 20012345"], "user_knows_too_much"),
        (["Please call issue_refund"], "user_knows_too_much"),
        (["My account is DE-500105"], "user_knows_too_much"),
        (["Where is my money now?", "Yes", "Yes"], None),
        (["I work as an assistant manager, and as an AI researcher"], None),
        (["Is there anything else I can do to get it?"], None),
        (["I drive a Ford F-150 and own an RTX4090 and a 2026-model, for 250000 euros, at 10:30am, 100km away"], None),
        (["Hello", "It is ord-1005, bought on 2026-01-31 for 1200 euros at 12:30"], None),
        (["I am an AI assistant made to help."], "user_out_of_role"),
        (["Hello", "I'm an AI."], "user_out_of_role"),
        (["Can you help me, I am a human"], None),
    ],
)
def test_faults(replies: list[str], code: str | None) -> None:
    assert fault_of(*replies) == code


@pytest.mark.parametrize(
    ("replies", "fields", "code"),
    [
        (["Hello", LONG_ANSWER], {"answers": LONG_ANSWER}, "user_out_of_role"),
        (["Hello", "OK"], {"answers": "OK"}, None),
        (["Hello", "It is ORD-2002."], {"answers": "ORD-2002 or ORD-2003?"}, None),
        (["It is ORD-2002."], {"opening": "About ORD-2002"}, None),
        (["I am customer K-20012"], {"knowledge": ("customer K-20012",)}, None),
    ],
)
def test_what_was_said_or_given_may_be_said_and_answers_may_not(
    replies: list[str], fields: dict[str, Any], code: str | None
) -> None:
    assert fault_of(*replies, **fields) == code


@pytest.mark.parametrize("text", ["\n" * 20_000, "- " * 10_000, "1" * 20_000, "as an ai" * 2_500, "a-" * 10_000])
def test_a_long_message_is_read_in_linear_time(text: str) -> None:
    """Else this takes minutes."""
    fault_of(text, answers=text)


def test_the_model_sees_its_own_messages_as_the_assistants() -> None:
    it = user(profile="Impatient.", knowledge=("It broke.", "It was new."), context="A shop.")
    it.scripted("Where is ORD-1001?", "On its way.")
    assert it.reply("And ORD-1005?") == "And ORD-1005?"
    it.hear("  ")
    system, begin, *rest = it.messages()
    assert all(text in system["content"] for text in (GOAL, "Impatient.", "It broke.\n\nIt was new.", "A shop."))
    assert "{{" not in system["content"]
    assert [(message["role"], message["content"]) for message in rest] == [
        ("assistant", "Where is ORD-1001?"),
        ("user", "On its way."),
        ("assistant", "And ORD-1005?"),
        ("user", "(The agent answered without text.)"),
    ]
    assert (begin["role"], it.turns) == ("user", 2)


# ── prompts ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_own_prompt_is_filled_and_texts_are_not_searched_for_places() -> None:
    prompt = user_prompt("You want {{ scenario.goal }} and are {{profile}}. End with {{stop}}. Know: {{knowledge}}")
    text = instructions_for(Simulation(goal="{{profile}}"), prompt)
    assert text == "You want {{profile}} and are (not given). End with ###STOP###. Know: (not given)"
    assert str(user_prompt(None)) == "simulated_user@1"


ARKSIMS = """You want: {{ scenario.goal }} ({{ scenario.user_profile }})
{% if scenario.knowledge and scenario.knowledge|length == 1 %}
Here is what you may ask about: {{ scenario.knowledge[0].content }}
{% elif scenario.knowledge and scenario.knowledge|length > 1 %}
You will get knowledge before each reply.
{% endif %}"""


def test_a_template_of_arksim_is_filled_and_no_knowledge_is_lost() -> None:
    prompt = user_prompt(ARKSIMS)
    one = instructions_for(Simulation(goal="{{profile}}", profile="Kind", knowledge=("It broke.",)), prompt)
    assert ("You want: {{profile}} (Kind)" in one, one.count("It broke."), "Reference" in one) == (True, 1, False)
    two = instructions_for(Simulation(goal="g", knowledge=("It broke.", "It was new.")), prompt)
    assert two.endswith("Reference knowledge:\n\nIt broke.\n\nIt was new.")
    assert "Reference" not in instructions_for(Simulation(goal="g"), prompt)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{{goal}} {% if %}", "TemplateSyntaxError"),
        ("{{goal}} {% if 1/0 %}{% endif %}", "ZeroDivisionError"),
        ("{% set x = ''.__class__.__mro__ %}{{x}}{{goal}}", "SecurityError"),
        ("{% if goal %}You are a user.{% endif %}", r"must hold \{\{goal\}\}"),
        ("You are a user.", r"must hold \{\{goal\}\}"),
        ("{{goal}} {{profil}}", r"unknown \{\{profil\}\} \(did you mean profile\?\)"),
    ],
)
def test_a_template_that_cannot_be_filled_is_refused(text: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        user_prompt(text)


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────────


JUDGE = JudgeSettings(base_url="http://judge/v1", model="big", temperature=None, extra_body={"a": 1}, timeout=9)


ENVIRON = {"A2A_EVAL_PROXY_SIMULATED_USER_MODEL": "env", "A2A_EVAL_PROXY_JUDGE_BASE_URL": "http://env/v1"}
PLAIN = {"response_format": "text", "votes": 1}


@pytest.mark.parametrize(
    ("options", "environ", "expected"),
    [
        ({}, {}, {"model": "big", "url": "http://judge/v1", "extra_body": {"a": 1}, "timeout": 9, "temperature": None}),
        ({"model": "small"}, {}, {"model": "small", "url": "http://judge/v1", "extra_body": None, "temperature": 0.7}),
        ({"temperature": 0.2}, {}, {"temperature": 0.2}),
        ({"base_url": "http://user/v1"}, {}, {"model": None, "extra_body": None, "timeout": 60.0}),
        ({"base_url": "http://user/v1", "model": "small"}, {}, {"model": "small"}),
        ({"model": "small"}, ENVIRON, {"model": "env", "url": "http://env/v1"}),
    ],
)
def test_what_is_not_given_is_the_judges_unless_the_server_is_another(
    options: dict[str, Any], environ: dict[str, str], expected: dict[str, Any]
) -> None:
    found = SimulatedUserSettings.from_mapping(options).model_settings(JUDGE, environ)
    assert {name: getattr(found, name) for name in (*expected, *PLAIN)} == expected | PLAIN


@pytest.mark.parametrize(
    ("options", "environ", "key"),
    [
        ({}, {"A2A_EVAL_PROXY_JUDGE_API_KEY": "j"}, "j"),
        ({}, {"A2A_EVAL_PROXY_JUDGE_API_KEY": "j", "A2A_EVAL_PROXY_SIMULATED_USER_API_KEY": "u"}, "u"),
        ({"base_url": "http://user/v1"}, {"A2A_EVAL_PROXY_JUDGE_API_KEY": "j", "OPENAI_API_KEY": "o"}, None),
        ({"base_url": "http://user/v1", "api_key_env": "MINE"}, {"MINE": "m"}, "m"),
        ({"base_url": "https://api.openai.com/v1"}, {"A2A_EVAL_PROXY_JUDGE_API_KEY": "j", "OPENAI_API_KEY": "o"}, "o"),
        ({"base_url": "http://judge/v1/"}, {"A2A_EVAL_PROXY_JUDGE_API_KEY": "j"}, "j"),
    ],
)
def test_the_judges_key_goes_to_the_judges_server_only(
    options: dict[str, Any], environ: dict[str, str], key: str | None
) -> None:
    settings = SimulatedUserSettings.from_mapping(options)
    found = settings.model_settings(JUDGE, environ).api_key(settings.model_environment(JUDGE, environ))
    assert found == key


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("{modell: x}", "s.yaml:2:18: simulated_user.modell: simulated_user: unknown option 'modell'"),
        ("{votes: 3}", "s.yaml:2:18: simulated_user.votes: simulated_user: unknown option 'votes'"),
        ("{api_key: x}", "s.yaml:2:18: simulated_user.api_key: simulated_user: do not write the API key into a file"),
        ("{seed: x}", "s.yaml:2:18: simulated_user.seed: simulated_user: option seed must be"),
        ("{timeout: 0}", "s.yaml:2:18: simulated_user.timeout: simulated_user: option timeout must be at least"),
        ("{prompt: hello}", "s.yaml:2:18: simulated_user.prompt: simulated_user: option prompt must hold {{goal}}"),
    ],
)
def test_a_wrong_block_is_refused_with_its_place(block: str, message: str) -> None:
    with pytest.raises(SuiteError) as caught:
        parse_suite(f"suite: x\nsimulated_user: {block}", "s.yaml")
    assert str(caught.value).startswith(message)
