"""Logs: no token, no header that is not known to be harmless, nothing that is redacted in turns."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from a2a_eval_proxy.privacy.policy import NO_PRIVACY, privacy_of
from a2a_eval_proxy.privacy.redactor import parse_rules
from a2a_eval_proxy.telemetry.logs import start_logging, without_secrets


@pytest.fixture(autouse=True)
def _root_logger_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[(b'content-type', b'a/b'), (b'set-cookie', b'id=1')]",
            "[(b'content-type', b'a/b'), (b'set-cookie', b'***')]",
        ),
        ("[('Accept', '*/*'), ('X-Tenant', \"o'neil\")]", "[('Accept', '*/*'), ('X-Tenant', \"***\")]"),
        (
            "GET https://ann:pw@host/card?token=abcd1234 failed",
            "GET https://ann:[token]@host/card?token=[token] failed",
        ),
        ("Authorization: Bearer abcdefgh1", "Authorization: Bearer [token]"),
        ("store postgresql://eval@db/turns: away", "store postgresql://eval@db/turns: away"),
        ("store postgres://eval:***@db/turns", "store postgres://eval:***@db/turns"),
        ("store postgresql://eval:s3cret-pw@db/turns", "store postgresql://eval:[token]@db/turns"),
        ("https://ghp_x@example.com/x", "https://[token]@example.com/x"),
        ("3 turn(s) were dropped", "3 turn(s) were dropped"),
    ],
)
def test_without_secrets(text: str, expected: str) -> None:
    assert without_secrets(text) == expected


def test_tracebacks_are_redacted_too(capsys: pytest.CaptureFixture[str]) -> None:
    privacy = privacy_of(parse_rules("email"), None)
    start_logging("info", "%(levelname)s %(message)s", privacy)
    try:
        raise ValueError("no mail to ann@example.com with sk-live0123456789abcdef")
    except ValueError:
        logging.getLogger("another.library").exception("failed for %s", "bob@example.com")
    told = capsys.readouterr().err
    assert told.startswith("ERROR failed for [email]\nTraceback")
    assert "ValueError: no mail to [email] with [token]" in told
    logging.getLogger("another.library").debug("not shown")
    assert "not shown" not in capsys.readouterr().err


@pytest.mark.parametrize("no_content", [True, False])
def test_what_rules_cannot_look_into_is_not_told(no_content: bool, capsys: pytest.CaptureFixture[str]) -> None:
    rules = () if no_content else parse_rules([{"name": "owner"}])
    start_logging("info", "%(levelname)s %(message)s", privacy_of(rules, None, no_content=no_content))
    try:
        raise KeyError("rosebud")
    except KeyError:
        logging.getLogger("another.library").exception("that failed")
    told = capsys.readouterr().err
    assert told.startswith("ERROR that failed\n")
    assert told.endswith("KeyError (its words are not shown)\n")
    assert "rosebud" not in told.replace('raise KeyError("rosebud")', "")


def test_what_an_agent_says_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("info", "%(message)s", NO_PRIVACY)
    logging.getLogger("another.library").warning("the agent said: %s", "\x1b[2J\x9b31m")
    assert capsys.readouterr().err == "the agent said: \N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}31m\n"
