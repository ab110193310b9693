"""Which model plays the user, and who gets which key."""

from __future__ import annotations

from typing import Any

import pytest
from tool_call_evaluators import SuiteError, parse_suite
from tool_call_evaluators.judge import JudgeSettings
from tool_call_evaluators.simulation.settings import SimulatedUserSettings
from tool_call_evaluators.suite.writing import suite_text

JUDGE = JudgeSettings(base_url="http://judge/v1", model="big", temperature=None, extra_body={"a": 1}, timeout=9)


def model(judge: JudgeSettings = JUDGE, environ: dict[str, str] | None = None, **options: Any) -> JudgeSettings:
    return SimulatedUserSettings.from_mapping(options).model_settings(judge, environ or {})


def test_what_is_not_given_is_the_judges_where_that_makes_sense() -> None:
    same = model()
    assert (same.model, same.url, same.extra_body, same.timeout) == ("big", "http://judge/v1", {"a": 1}, 9)
    assert same.temperature is None  # the model of the judge takes none
    assert (same.response_format, same.votes) == ("text", 1)
    other = model(model="small")
    assert (other.model, other.url, other.extra_body, other.temperature) == ("small", "http://judge/v1", None, 0.7)
    assert model(temperature=0.2).temperature == 0.2


def test_a_server_of_its_own_gets_nothing_of_the_judges() -> None:
    own = model(base_url="http://user/v1")
    assert (own.model, own.extra_body, own.timeout) == (None, None, 60.0)
    assert model(base_url="http://user/v1", model="small").model == "small"


def test_the_environment_overrides_the_file() -> None:
    environ = {"A2A_EVAL_PROXY_SIMULATED_USER_MODEL": "env", "A2A_EVAL_PROXY_JUDGE_BASE_URL": "http://env/v1"}
    found = model(environ=environ, model="small")
    assert (found.model, found.url) == ("env", "http://env/v1")


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


def test_a_suite_has_them_and_writes_them() -> None:
    text = "suite: x\nsimulated_user: {model: small, seed: 7, temperature: 0.5, prompt: 'Want {{goal}}.'}"
    suite = parse_suite(text)
    assert suite.simulated_user.seed == 7
    assert parse_suite(suite_text(suite)).simulated_user == suite.simulated_user


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
