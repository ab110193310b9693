"""Faults of a simulated user, found in its messages by rules. They are never failures of the agent."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from a2a_tool_capture.models import Finding, Severity

USER_OUT_OF_ROLE = "user_out_of_role"
USER_KNOWS_TOO_MUCH = "user_knows_too_much"
USER_REPEATS = "user_repeats"
USER_EMPTY = "user_empty"
USER_UNANSWERED = "user_unanswered"
USER_NO_END = "user_no_end"

USER_FAULTS = (USER_OUT_OF_ROLE, USER_KNOWS_TOO_MUCH, USER_REPEATS, USER_EMPTY, USER_UNANSWERED, USER_NO_END)
"""Codes of findings. All but the last spoil a conversation: it stops before the agent gets the message."""

_MODEL = r"(ai|artificial intelligence|(ai )?(large )?language model|ai model)(?=[^\w\n]*([,.;:!?)]|$| i\b))"
_AS_ASSISTANT = re.compile(
    r"^[^\w\n]*(assistant|agent|ai|system|tool)\s*:"
    rf"|\b(as|i['’]m|i am)( just)? an? {_MODEL}"
    r"|\bi(['’]m| am)( just)? an? (virtual|digital|ai) assistant\b"
    r"|\bhow (can|may) i (help|assist) you\b"
    r"|\b(any|some)thing else (that )?i can (help|assist)\b"
    r"|\bsimulated user\b",
    re.IGNORECASE | re.MULTILINE,
)
"""What only an assistant writes, in English."""
_ECHOED = 40
"""Characters of the agent's last answer that the user would not write word for word."""
_SENTENCE = 4
"""Words from which on a message is no mere `Yes` or `Thank you`, which a user may send several times."""
_WORD = re.compile(r"[^\W_]+(?:[-_./:][^\W_]+)*")
_IDENTIFIER = re.compile(r"[^\W\d_]+[-_/]\d{4,}.*|\d{7,}|(?=.*[^\W\d_])(?:\D*\d){6,}.*")
"""Such as ORD-1001, 20012345 or A1234567; not dates, times, amounts and names of products, which a user may choose."""


def fault_in(
    message: str, said: Sequence[str], heard: Sequence[str], given: str, tool_names: Collection[str] = ()
) -> Finding | None:
    """The fault of the user's next message, if any.

    `said` are the user's earlier messages, `heard` the agent's answers, `given` all that the user was given to know.
    """
    if not message.strip():
        return user_fault(USER_EMPTY, "its message is empty")
    if found := _AS_ASSISTANT.search(message):
        return user_fault(USER_OUT_OF_ROLE, f"it speaks as the assistant: {found.group().strip()!r}")
    if heard and len(heard[-1].strip()) >= _ECHOED and _plain(heard[-1]) in _plain(message):
        return user_fault(USER_OUT_OF_ROLE, "it repeats the agent's answer as its own message")
    if _repeated(message, said):
        return user_fault(USER_REPEATS, f"it repeats itself: {_short(message)!r}")
    known = "\n".join((given, *said, *heard)).casefold()
    if word := _unknown_word(message, known, tool_names):
        return user_fault(USER_KNOWS_TOO_MUCH, f"it says {word!r}, which was neither given to it nor said before")
    return None


def user_fault(code: str, message: str) -> Finding:
    return Finding(code, message, Severity.ERROR)


def _repeated(message: str, said: Sequence[str]) -> bool:
    plain = _plain(message)
    if len(plain.split()) >= _SENTENCE:
        return plain in map(_plain, said)
    return len(said) >= 2 and all(_plain(earlier) == plain for earlier in said[-2:])


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _unknown_word(message: str, known: str, tool_names: Collection[str]) -> str | None:
    """An identifier, a long number or the name of a tool that is not in the `known` text."""
    words: list[str] = _WORD.findall(message)
    for word in words:
        if (word in tool_names or _IDENTIFIER.fullmatch(word)) and word.casefold() not in known:
            return word
    return None


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:80]}…"
