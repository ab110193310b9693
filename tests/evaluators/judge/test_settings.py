"""What a judge block and the environment may say."""

from __future__ import annotations

import pytest
from tool_call_evaluators import OptionError
from tool_call_evaluators.judge import JudgeSettings


@pytest.mark.parametrize(
    ("options", "complaint", "option"),
    [
        ({"modle": "m"}, r"unknown option 'modle' \(did you mean model\?\)", "modle"),
        ({"model": 4}, "option model must be a string or null; got 4", "model"),
        ({"api_key": "sk-1"}, "do not write the API key into a file; set A2A_EVAL_PROXY_JUDGE_API_KEY", "api_key"),
        ({"base_url": "localhost:8000"}, "option base_url must be a URL such as https://host/v1", "base_url"),
        ({"base_url": "https://me:secret@host/v1"}, "without user or fragment", "base_url"),
        ({"base_url": "https://host/v1?key=secret"}, r"must not hold a key \(the query parameter key\)", "base_url"),
        ({"headers": {"X-Token": "secret"}}, r"secret header X-Token into a file; give it as \${VARIABLE}", "headers"),
        ({"timeout": 0}, "option timeout must be at least 0.001", "timeout"),
        ({"retries": -1}, "option retries must be at least 0", "retries"),
        ({"concurrency": 0}, "option concurrency must be at least 1", "concurrency"),
        ({"votes": 0}, "option votes must be at least 1", "votes"),
        ({"prices": {"input": 1}}, "option prices must be {input, output}", "prices"),
        ({"prices": {"input": 1, "output": -1}}, "option prices must be {input, output}", "prices"),
        ({"response_format": "xml"}, "must be one of json_schema, json_object, text", "response_format"),
        ({"extra_body": {"messages": []}}, "option extra_body must not hold messages", "extra_body"),
    ],
)
def test_what_cannot_be_is_named(options, complaint, option):
    with pytest.raises(OptionError, match=complaint) as caught:
        JudgeSettings.from_mapping(options)
    assert caught.value.option == option
    assert "secret" not in str(caught.value).replace("secret header", "")
    assert "sk-1" not in str(caught.value)


OPENAI, FILE = {"OPENAI_BASE_URL": "http://openai/v1"}, {"base_url": "http://file/v1/", "model": "file"}
OWN = {"A2A_EVAL_PROXY_JUDGE_BASE_URL": "http://own/v1", "A2A_EVAL_PROXY_JUDGE_MODEL": "own"}
KEYS = {"OPENAI_API_KEY": "a", "A2A_EVAL_PROXY_JUDGE_API_KEY": "b", "MINE": "c"}


@pytest.mark.parametrize(
    ("settings", "environ", "url", "model"),
    [
        ({}, {}, "https://api.openai.com/v1", None),
        ({}, OPENAI, "http://openai/v1", None),
        (FILE, OPENAI, "http://file/v1", "file"),
        (FILE, {**OPENAI, **OWN}, "http://own/v1", "own"),
        ({}, {"OPENAI_BASE_URL": ""}, "https://api.openai.com/v1", None),
    ],
)
def test_the_environment_comes_before_the_file_and_openai_s_after(settings, environ, url, model):
    found = JudgeSettings(**settings).with_environment(environ)
    assert (found.url, found.model) == (url, model)


def test_a_wrong_url_of_the_environment_is_refused():
    with pytest.raises(OptionError, match=r"base_url .* \(from the environment\)"):
        JudgeSettings().with_environment({"OPENAI_BASE_URL": "nonsense"})


@pytest.mark.parametrize(
    ("settings", "environ", "key"),
    [
        ({}, {}, None),
        ({}, {"OPENAI_API_KEY": "a"}, "a"),
        ({}, KEYS, "b"),
        ({"api_key_env": "MINE"}, KEYS, "c"),
        ({"api_key_env": "NOBODYS"}, KEYS, None),
    ],
)
def test_which_key(settings, environ, key):
    assert JudgeSettings(**settings).api_key(environ) == key


@pytest.mark.parametrize(
    ("settings", "environ", "missing"),
    [
        (
            {},
            {"OPENAI_API_KEY": "a"},
            "no model is configured; give the suite a `judge` block with a model, or set A2A_",
        ),
        ({"model": "m"}, {}, "api.openai.com needs a key; set A2A_EVAL_PROXY_JUDGE_API_KEY or OPENAI_API_KEY, or name"),
        ({"model": "m"}, {"OPENAI_API_KEY": "a"}, ""),
        ({"model": "m", "base_url": "http://localhost:8090/v1"}, {}, ""),
        ({"model": "m", "base_url": "https://x.openai.azure.com/openai/v1"}, {}, "x.openai.azure.com needs a key"),
        ({"model": "m", "base_url": "https://x.openai.azure.com/v1", "headers": {"api-key": "${K}"}}, {"K": "a"}, ""),
        ({"model": "m", "headers": {"X-Team": "a"}}, {}, "api.openai.com needs a key"),
        ({"model": "m", "api_key_env": "MINE"}, {"OPENAI_API_KEY": "a"}, "the environment variable MINE, which"),
        ({"model": "m", "base_url": "http://h/v1", "headers": {"X": "${TEAM}"}}, {}, "the environment variable TEAM"),
    ],
)
def test_what_is_missing_is_named_before_anything_is_sent(settings, environ, missing):
    found = JudgeSettings(**settings).missing(environ)
    assert found.startswith(missing) if missing else found == ""
