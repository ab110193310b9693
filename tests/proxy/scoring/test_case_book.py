"""Which case a turn belongs to, and which of its turns it is."""

from __future__ import annotations

import re
from typing import Any

import pytest
from a2a_eval_proxy.scoring import case_book
from a2a_eval_proxy.scoring.case_book import CaseBook, RegisteredCase, TooManyCasesError, registered_case
from tool_call_evaluators.suite import Case, Suite, parse_case, parse_suite

SUITE = """
suite: orders
cases:
  - {id: status, turns: [{user: Where is ORD-1?}, {user: Thanks}]}
  - {id: refund, turns: [{user: Refund ORD-1}, {user: Thanks}]}
  - {id: stock, turns: [{user: " Any kettles? "}, {user: {approve: true}}, {user: {choose: "2"}}]}
"""


def suite() -> Suite:
    return parse_suite(SUITE)


def case(case_id: str, *texts: str) -> Case:
    return parse_case({"id": case_id, "turns": [{"user": text} for text in texts]})


@pytest.fixture
def book() -> CaseBook:
    return CaseBook(suite())


# ── matching ────────────────────────────────────────────────────────────────────────────────────────────────


# What the client named, the conversation, the text, and the case, one after another; `mine` is of conversation c-7.
MATCHES: dict[str, list[tuple[str | None, str, str, str | None]]] = {
    "what the client named wins": [
        ("refund", "c", "Where is ORD-1?", "refund"),
        ("not in the suite", "c2", "Where is ORD-1?", "not in the suite"),
    ],
    "a registered context is next": [
        (None, "c-7", "Where is ORD-1?", "mine"),
        ("refund", "c-7", "Where is ORD-1?", "refund"),
        (None, "c-8", "Where is ORD-1?", "status"),
    ],
    "a text that only one case has": [(None, "", "Any kettles?", "stock"), (None, "", " Any kettles?\n", "stock")],
    "a text that none or several cases have": [
        (None, "c", text, None) for text in ("Thanks", "any kettles?", "Something else", "")
    ],
    "a conversation stays with its case": [
        (None, "c1", "Where is ORD-1?", "status"),
        (None, "c2", "Refund ORD-1", "refund"),
        (None, "c1", "Thanks", "status"),
        (None, "c2", "Thanks", "refund"),
        (None, "c1", "Something not in the script", "status"),
        (None, "c3", "Thanks", None),
    ],
    "a conversation named once stays with its case": [
        ("refund", "c", "Off script", "refund"),
        (None, "c", "Thanks", "refund"),
    ],
    "a conversation may turn to another case": [
        (None, "c", "Where is ORD-1?", "status"),
        (None, "c", "Any kettles?", "stock"),
        (None, "c", "Off script", "stock"),
    ],
    "an answer follows the case of its conversation": [
        (None, "c1", "approve", None),
        (None, "c2", "2", None),
        (None, "c3", "Where is ORD-1?", "status"),
        (None, "c3", "approve", "status"),
        (None, "c4", "Any kettles?", "stock"),
        (None, "c4", "approve", "stock"),
    ],
    "without a conversation nothing is remembered": [
        (None, "", "Where is ORD-1?", "status"),
        (None, "", "Thanks", None),
    ],
}


@pytest.mark.parametrize("name", MATCHES)
def test_turns_and_their_cases(name: str, book: CaseBook) -> None:
    book.put(RegisteredCase(case("mine", "whatever"), "c-7"))
    for named, conversation, text, found in MATCHES[name]:
        assert book.match(named, conversation, text) == found, text


def test_the_conversation_not_heard_of_for_longest_is_forgotten_first() -> None:
    book = CaseBook(suite(), max_conversations=2)
    for conversation in ("c1", "c2", "c1", "c3"):
        book.match("status", conversation, "Where is ORD-1?")
    assert [book.match(None, conversation, "Off script") for conversation in ("c1", "c2", "c3")] == [
        "status",
        None,
        "status",
    ]


# ── registering ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("data", "split"),
    [
        ({"turns": []}, ({"turns": [], "id": "x"}, None)),
        ({"id": "y", "turns": []}, ({"id": "y", "turns": []}, None)),
        ({"turns": [], "context_id": "c"}, ({"turns": [], "id": "x"}, "c")),
        ({"contextId": "c"}, ({"id": "x"}, "c")),
        ({"conversation_id": "c", "context_id": None}, ({"id": "x"}, "c")),
    ],
)
def test_the_body_of_a_registration(data: dict[str, Any], split: Any) -> None:
    assert registered_case(data, "x") == split


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"context_id": 7}, "context_id: expected a non-empty text, got 7"),
        ({"contextId": ""}, "contextId: expected a non-empty text, got ''"),
        ({"context_id": "c", "contextId": "d"}, "context_id and contextId are names of the same thing: give one"),
    ],
)
def test_a_registration_for_no_conversation_there_can_be(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        registered_case(data, "x")


# ── many cases ──────────────────────────────────────────────────────────────────────────────────────────────


def test_cases_are_found_however_they_came_and_went(book: CaseBook) -> None:
    """Without texts a case is removed."""
    steps: list[tuple[str, list[str], dict[str, str | None]]] = [
        ("x", ["a"], {"a": "x", "b": None}),
        ("x", [" b", "d"], {"a": None, "b": "x"}),
        ("y", ["b", "b"], {"b": None, "d": "x"}),
        ("x", [], {"b": "y", "d": None}),
        ("stock", ["c"], {"c": "stock", "Any kettles?": None}),
        ("stock", [], {"c": None, "Any kettles?": "stock"}),
    ]
    for case_id, texts, found in steps:
        if texts:
            book.put(RegisteredCase(case(case_id, *texts)))
        else:
            assert book.remove(case_id)
            assert not book.remove(case_id)
        assert {text: book.match(None, "", text) for text in found} == found
    for context in ("c-1", "c-2"):
        book.put(RegisteredCase(case("x", "a"), context))
    assert [book.match(None, context, "Off script") for context in ("c-1", "c-2")] == [None, "x"]


@pytest.mark.parametrize(("limit", "most"), [("MAX_REGISTERED", 3), ("MAX_REGISTERED_BYTES", 300)])
def test_registered_cases_have_a_limit(limit: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case_book, limit, most)
    book = CaseBook(None)

    def put(case_id: str) -> None:
        book.put(RegisteredCase(parse_case({"id": case_id, "turns": [{"user": "Hello"}]}), size=100))

    for number in range(3):
        put(str(number))
    with pytest.raises(TooManyCasesError, match="3 cases with 300 bytes are registered"):
        put("another")
    assert book.case("another") is None
    put("2")  # in place of itself
    book.remove("0")
    put("another")
    assert book.case("another") is not None


def test_the_cases_in_force_are_listed_a_registered_one_in_place_of_the_suite_s():
    book = CaseBook(parse_suite("suite: s\ncases: [{id: a, turns: [{user: x}]}, {id: b, turns: [{user: y}]}]"))
    registered = parse_case({"id": "b", "turns": [{"user": "z"}]}, "case")
    book.put(RegisteredCase(registered))
    assert [(case.id, case.input, origin) for case, origin in book.listed()] == [
        ("a", "x", "suite"),
        ("b", "z", "registered"),
    ]
