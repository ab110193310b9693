"""Which case of the suite a turn belongs to, and which of the case's turns it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from a2a_tool_capture.recent import Recent
from tool_call_evaluators.outcomes.conversations import TurnJson, is_given
from tool_call_evaluators.suite import Case, Suite
from tool_call_evaluators.suite.messages import UserMessage

from ..privacy.policy import NO_PRIVACY, Privacy, redacted_case
from ..turn import Turn

MAX_REGISTERED, MAX_REGISTERED_BYTES = 10_000, 16 * 1024 * 1024
"""Cases registered while the proxy runs, and their JSON: in memory they take several times that."""

_CONTEXT_KEYS = ("context_id", "contextId", "conversation_id")
"""What a registration may call the conversation it is for; the second as in A2A, the third as in a turn."""


@dataclass(frozen=True, slots=True)
class RegisteredCase:
    """A case registered with the admin API. `context_id` ties it to one conversation, whatever its texts; `size` is
    that of its JSON in bytes."""

    case: Case
    context_id: str | None = None
    size: int = 0


class TooManyCasesError(Exception):
    """No further case can be registered; the message says how many there are."""


class CaseBook:
    """The cases in force: the suite's, and those registered while the proxy runs.

    With rules of `privacy`, turns come redacted, or with the text that was sent: they match either way, and the cases
    given out are redacted.
    """

    def __init__(self, suite: Suite | None, max_conversations: int = 100_000, *, privacy: Privacy = NO_PRIVACY) -> None:
        self.suite = suite
        self.privacy, self._redactor = privacy, privacy.redactor
        self._suite_cases = {case.id: self._seen(case) for case in suite.cases} if suite else {}
        self._suite_texts = _Index()
        for case in suite.cases if suite else ():
            self._suite_texts.add(case.id, self._texts(case))
        self._registered: dict[str, RegisteredCase] = {}
        self._registered_bytes = 0
        self._registered_seen: dict[str, Case] = {}
        self._registered_texts = _Index()
        self._contexts = _Index()
        self._conversations: Recent[tuple[str | None, str], str] = Recent(max_conversations)

    def put(self, registered: RegisteredCase) -> None:
        """Add a case, or replace the one of that id. It goes before one of the suite with the same id.

        A case without tools or attempts of its own has the suite's, as in the suite file. Raises TooManyCasesError."""
        case = registered.case
        before = self._registered.get(case.id)
        size = self._registered_bytes - (before.size if before else 0) + registered.size
        if size > MAX_REGISTERED_BYTES or (before is None and len(self._registered) >= MAX_REGISTERED):
            raise TooManyCasesError(
                f"{len(self._registered)} cases with {self._registered_bytes} bytes are registered, of at most "
                f"{MAX_REGISTERED} with {MAX_REGISTERED_BYTES}"
            )
        if self.suite is not None:
            registered = replace(registered, case=case.completed(self.suite))
        self.remove(case.id)
        self._registered_bytes += registered.size
        self._registered[case.id] = registered
        self._registered_seen[case.id] = self._seen(registered.case)
        self._registered_texts.add(case.id, self._texts(case))
        self._contexts.add(case.id, self._context(registered))

    def extend(self, suite: Suite) -> None:
        """The suite has more cases now, and all that it had, which may expect something else."""
        self.suite = suite
        for case in suite.cases:
            if case.id not in self._suite_cases:
                self._suite_texts.add(case.id, self._texts(case))
            self._suite_cases[case.id] = self._seen(case)

    def remove(self, case_id: str) -> bool:
        """Forget a registered case; returns False for an unknown one. The suite's own cases stay."""
        registered = self._registered.pop(case_id, None)
        if registered is None:
            return False
        self._registered_bytes -= registered.size
        del self._registered_seen[case_id]
        self._registered_texts.remove(case_id, self._texts(registered.case))
        self._contexts.remove(case_id, self._context(registered))
        return True

    def case(self, case_id: str) -> Case | None:
        return self._registered_seen.get(case_id) or self._suite_cases.get(case_id)

    def states_of(self, turn: Turn, earlier: int) -> tuple[str, ...]:
        """The states in which the turn may end, as its case says; empty: nothing is said of them. `earlier` counts the
        conversation's earlier turns of the case."""
        case = self.case(turn.case_id) if turn.case_id else None
        index = case.turn_index(turn.user_text, earlier, turn.agent_name) if case else 0
        return (case and case.expect_at(index).state) or ()

    def place_in_case(self, case_id: str | None, earlier: Iterable[TurnJson]) -> int:
        """How many of the earlier turns of a conversation are of that case, and not of its history."""
        case = self.case(case_id) if case_id else None
        return sum(turn["case_id"] == case_id and not is_given(case, turn) for turn in earlier)

    def is_given(self, turn: Turn) -> bool:
        """See `Case.is_given`."""
        case = self.case(turn.case_id) if turn.case_id else None
        return is_given(case, {"given": turn.given, "attempt": turn.attempt, "user_text": turn.user_text})

    def is_of_suite(self, case_id: str | None) -> bool:
        return case_id in self._suite_cases

    def listed(self) -> list[tuple[Case, Literal["suite", "registered"]]]:
        """The cases in force, as `case` returns them: those of the suite in its order, then the registered ones."""
        of_suite = [case for case_id, case in self._suite_cases.items() if case_id not in self._registered]
        return [(case, "suite") for case in of_suite] + [
            (case, "registered") for case in self._registered_seen.values()
        ]

    def match(
        self, case_id: str | None, conversation_id: str, user_text: str, agent_name: str | None = None
    ) -> str | None:
        """The id of the turn's case: as the client named it; else by a registered `context_id`; else what the
        conversation's earlier turns were; else the one case that has this exact user text in one of its turns, other
        than as an answer such as `approve`, which many conversations have.

        None where no case, or more than one, would fit. `agent_name`: with which of several agents the conversation is.
        """
        found = self._find(case_id, conversation_id, user_text, agent_name)
        if found is not None and conversation_id:
            self.remember(conversation_id, found, agent_name)
        return found

    def case_of(self, turn: Turn, *, closed: bool = False) -> str | None:
        """The case of a turn that is not redacted, as far as it is known. That of one that is not `closed` may change:
        it is not remembered for the conversation."""
        named = turn.case_id
        if named and self.case(named) is None:
            named = self.privacy.identifier(named)
        find = self.match if closed else self._find
        return find(named, self.privacy.identifier(turn.conversation_id), turn.user_text, turn.agent_name)

    def _find(self, case_id: str | None, conversation_id: str, user_text: str, agent_name: str | None) -> str | None:
        contexts = self._contexts.get(conversation_id)
        found = case_id or (next(iter(contexts)) if contexts else None)
        if found is None:
            texts = self._by_text(user_text.strip()) if self._suite_texts or self._registered_texts else []
            if texts and agent_name is not None:
                texts = [one for one in texts if (case := self.case(one)) and case.agents in ((None,), (agent_name,))]
            remembered = self._conversations.get((agent_name, conversation_id)) if conversation_id else None
            if remembered is not None and (not texts or remembered in texts):
                found = remembered
            elif len(texts) == 1:
                found = texts[0]
        return found

    def remember(self, conversation_id: str, case_id: str, agent_name: str | None = None) -> None:
        """This conversation, with that agent, is about that case, until it says otherwise."""
        self._conversations[agent_name, conversation_id] = case_id

    def forget(self, conversation_id: str, agent_name: str | None = None) -> None:
        """What this conversation was about so far."""
        self._conversations.pop((agent_name, conversation_id), None)

    def _seen(self, case: Case) -> Case:
        return redacted_case(case, self._redactor)

    def _texts(self, case: Case) -> set[str]:
        said = [turn.user for turn in case.turns] + [turn.user for turn in case.given.turns]
        texts = {text.strip() for text in said if not (isinstance(text, UserMessage) and text.is_answer)}
        return texts | {self._redactor.text(text) for text in texts}

    def _context(self, registered: RegisteredCase) -> list[str]:
        context_id = registered.context_id
        return [self._redactor.identifier(context_id)] if context_id else []

    def _by_text(self, text: str) -> list[str]:
        """The cases in one of whose turns the user says that."""
        of_suite = [case_id for case_id in self._suite_texts.get(text, ()) if case_id not in self._registered]
        return [*self._registered_texts.get(text, ()), *of_suite]


class _Index(dict[str, dict[str, None]]):
    """Ids of cases by what they are found by, in the order of adding."""

    def add(self, case_id: str, keys: Iterable[str]) -> None:
        for key in keys:
            self.setdefault(key, {})[case_id] = None

    def remove(self, case_id: str, keys: Iterable[str]) -> None:
        for key in keys:
            del self[key][case_id]
            if not self[key]:
                del self[key]


def registered_case(data: Mapping[str, Any], case_id: str) -> tuple[dict[str, Any], str | None]:
    """Split the body of `PUT /api/cases/{id}` into the case's own JSON and the contextId it is for, if any.

    Raises ValueError where it is not a string, or given twice.
    """
    names = [name for name in _CONTEXT_KEYS if data.get(name) is not None]
    if len(names) > 1:
        raise ValueError(f"{' and '.join(names)} are names of the same thing: give one")
    context_id = data[names[0]] if names else None
    if names and (not isinstance(context_id, str) or not context_id):
        raise ValueError(f"{names[0]}: expected a non-empty text, got {context_id!r:.80}")
    body = {key: value for key, value in data.items() if key not in _CONTEXT_KEYS}
    body.setdefault("id", case_id)
    return body, context_id
