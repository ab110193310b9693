"""Cases compared with redacted turns are redacted, too."""

from __future__ import annotations

from dataclasses import fields

from a2a_eval_proxy.privacy.redactor import Redactor
from a2a_eval_proxy.privacy.rules import parse_rules
from a2a_eval_proxy.privacy.suites import redacted_case
from tool_call_evaluators import Case, Simulation


def test_the_texts_of_a_simulated_user_are_redacted() -> None:
    secret = "call ada@example.org"
    user = Simulation(goal=secret, profile=secret, knowledge=(secret,), context=secret, opening=secret, stop=secret)
    seen = redacted_case(Case(id="a", simulate=user), Redactor(parse_rules("email"), b"a key of the tests")).simulate
    assert seen is not None
    assert "ada@" not in str([getattr(seen, item.name) for item in fields(seen)])
    assert (seen.max_turns, len(seen.knowledge)) == (10, 1)
