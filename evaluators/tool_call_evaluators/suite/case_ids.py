"""Ids of cases: they are sent in a header, so they are printable and without surrounding white space."""

from __future__ import annotations

import re
from unicodedata import normalize

MAX_LENGTH = 48
"""Maximum length of an id that is made of a text, in characters."""


def slug(text: str, limit: int = MAX_LENGTH) -> str:
    """The first words of `text` in lower case, as in `für-ord-1001`. Letters of all scripts stay; may be empty."""
    words = re.findall(r"[^\W_]+", normalize("NFC", text.casefold()))
    made = words[0][:limit] if words else ""
    for word in words[1:]:
        if len(made) + 1 + len(word) > limit:
            break
        made = f"{made}-{word}"
    return made


def printable_id(text: str) -> str:
    """`text` as the id of a case, on one line; `case` if nothing printable remains."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split()) or "case"


def free_id(wanted: str, taken: set[str]) -> str:
    """`wanted`, with a number if it is already `taken`; adds the returned id to `taken`."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    taken.add(name)
    return name
