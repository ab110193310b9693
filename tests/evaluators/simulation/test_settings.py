"""Which model plays the user, and who gets which key."""

from __future__ import annotations

from typing import Any

import pytest
from tool_call_evaluators import SuiteError, parse_suite
from tool_call_evaluators.judge import JudgeSettings
from tool_call_evaluators.simulation.settings import SimulatedUserSettings

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
