"""Cases compared with redacted turns are redacted, too."""

from __future__ import annotations

from a2a_eval_proxy.privacy.policy import redacted_case
from a2a_eval_proxy.privacy.redactor import Redactor, parse_rules
from tool_call_evaluators.model import ExpectedCall
from tool_call_evaluators.suite import Case, CaseTurn, Expectation, GivenTurn, History, Simulation
from tool_call_evaluators.suite.model import WorldExpectation


def test_the_texts_of_a_history_and_of_simulated_users_are_redacted() -> None:
    secret = "call ada@example.org"
    user = Simulation(goal=secret, profile=secret, knowledge=(secret,), context=secret, opening=secret, stop=secret)
    case = Case(id="a", given=History(turns=(GivenTurn(secret, secret),), simulate=user), simulate=user)
    seen = redacted_case(case, Redactor(parse_rules("email"), b"a key of the tests"))
    assert "ada@" not in str(seen)
    assert (seen.given.simulate, seen.given.turns) == (seen.simulate, (GivenTurn("call [email]", "call [email]"),))
    assert seen.simulate is not None
    assert (seen.simulate.max_turns, len(seen.simulate.knowledge)) == (10, 1)


def test_expected_results_and_errors_are_redacted_as_those_of_calls_are() -> None:
    wanted = ExpectedCall("f", {}, result={"to": "ada@example.org", "n": {"$any": True}}, error="for ada@example.org")
    world = WorldExpectation(command=("ls",), equals={"to": "ada@example.org"})
    case = Case(id="a", turns=(CaseTurn("hi", Expectation(tool_calls=(wanted,), state_of_world=world)),))
    seen = redacted_case(case, Redactor(parse_rules("email"), b"a key of the tests")).turns[0].expect
    call = ExpectedCall("f", {}, result={"to": "[email]", "n": {"$any": True}}, error="for [email]")
    assert seen.tool_calls == (call,)
    assert seen.state_of_world == WorldExpectation(command=("ls",), equals={"to": "[email]"})
