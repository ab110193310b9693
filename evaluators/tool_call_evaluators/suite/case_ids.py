"""Ids of cases: they travel in a header, so they are printable and have no white space around them."""

from __future__ import annotations


def printable_id(text: str) -> str:
    """`text` as the id of a case, on one line; `case` where nothing is left of it."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split()) or "case"


def free_id(wanted: str, taken: set[str]) -> str:
    """`wanted`, with a number where it is already `taken`; the id given is added to those."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    taken.add(name)
    return name
