"""A request of the wire as a command that a shell can run."""

from __future__ import annotations

import shlex
from typing import Any

from a2a_eval_proxy.ui.work.curl import curl_command


def request(**fields: Any) -> dict[str, Any]:
    body = {"bytes": 11, "text": 'it\'s {"a":1}\n'}
    headers = [["host", "agent"], ["authorization", "***"], ["a2a-version", "1.0"], ["traceparent", "00-1"]]
    return {"method": "POST", "target": "/agent/v1?x=1&y=2", "headers": headers, "body": body, **fields}


def test_the_command_goes_to_the_proxy_and_has_placeholders_for_credentials() -> None:
    command = curl_command(request(), "http://127.0.0.1:8080", "http://agent:9999/agent/")
    assert shlex.split(command) == [
        *("curl", "-sS", "-N", "-X", "POST", "http://127.0.0.1:8080/v1?x=1&y=2"),
        *("-H", "authorization: YOUR-AUTHORIZATION", "-H", "a2a-version: 1.0"),
        *("--data-binary", 'it\'s {"a":1}\n'),
    ]


def test_a_body_that_is_not_whole_text_is_a_file() -> None:
    for body in (
        {"bytes": 3, "base64": "//4="},
        {"bytes": 3, "text": "abc", "cut": True},
        {"bytes": 3, "withheld": "x"},
    ):
        words = shlex.split(curl_command(request(body=body), "http://proxy", "http://agent"))
        assert words[-2:] == ["--data-binary", "@request-body"]
    assert "--data-binary" not in curl_command(request(body={"bytes": 0, "text": ""}), "http://proxy", "http://agent")
