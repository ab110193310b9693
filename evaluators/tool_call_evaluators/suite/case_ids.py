"""Ids of cases: they are sent in a header, so they are printable and without surrounding white space."""

from __future__ import annotations


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
