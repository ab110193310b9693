"""A value in a document, read with complaints that say where it stands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from .document import Document, DocumentError, Path
from .options import did_you_mean

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Node:
    """The value at `path` of a document. Every reading method raises DocumentError where it is not of the form."""

    document: Document
    value: Any
    path: Path = ()

    def fail(self, problem: str) -> NoReturn:
        """Complain about this very value."""
        raise DocumentError(f"{dotted(self.path)}: {problem}" if self.path else problem, self.position)

    @property
    def position(self) -> tuple[int, int] | None:
        return self.document.position(self.path)

    def object(self, known: tuple[str, ...], required: tuple[str, ...] = ()) -> dict[str, Node]:
        """The entries of an object. Refuses keys that are not `known`, and wants the `required` ones."""
        entries = self.entries()
        for key, entry in entries.items():
            if key not in known:
                hint = did_you_mean(key, known)
                raise DocumentError(
                    f"{dotted(entry.path)}: unknown key{hint}; accepted are {', '.join(known)}", entry.position
                )
        for key in required:
            if key not in entries:
                self.fail(f"{key} is missing")
        return entries

    def entries(self) -> dict[str, Node]:
        """The entries of an object, whatever their keys."""
        if not isinstance(self.value, dict):
            self.fail(f"expected an object, got {self.kind}")
        return {key: Node(self.document, item, (*self.path, key)) for key, item in self.value.items()}

    def items(self) -> list[Node]:
        """The items of a list."""
        if not isinstance(self.value, list):
            self.fail(f"expected a list, got {self.kind}")
        return [Node(self.document, item, (*self.path, index)) for index, item in enumerate(self.value)]

    def text(self) -> str:
        """A text that is not blank."""
        if not isinstance(self.value, str):
            hint = "; put it in quotes" if isinstance(self.value, bool | int | float) else ""
            self.fail(f"expected a text, got {self.kind}{hint}")
        if not self.value.strip():
            self.fail("must not be blank")
        return self.value

    def texts(self) -> tuple[str, ...]:
        """A list of texts."""
        return tuple(item.text() for item in self.items())

    def text_or_texts(self) -> tuple[str, ...]:
        """One text, or a list of them."""
        return (self.text(),) if isinstance(self.value, str) else self.texts()

    def number(self) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self.fail(f"expected a number, got {self.kind}")
        return self.value

    def boolean(self) -> bool:
        if not isinstance(self.value, bool):
            self.fail(f"expected true or false, got {self.kind}")
        return self.value

    def whole_number(self, least: int, most: int) -> int:
        number = self.value
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            self.fail(f"expected a whole number from {least:,} to {most:,}, got {self.kind}")
        return number

    def share(self) -> float:
        """A number from 0 to 1."""
        number = self.number()
        if not 0 <= number <= 1:
            self.fail(f"expected a number from 0 to 1, got {self.kind}")
        return number

    def choice(self, accepted: tuple[str, ...]) -> str:
        """One of the words `accepted`."""
        word = self.text()
        if word not in accepted:
            self.fail(f"unknown {word!r}{did_you_mean(word, accepted)}; accepted are {', '.join(accepted)}")
        return word

    def convert(self, function: Callable[[Any], T]) -> T:
        """What `function` makes of the value; its ValueError is a complaint about this place."""
        try:
            return function(self.value)
        except ValueError as error:
            self.fail(str(error))

    @property
    def kind(self) -> str:
        """What this is, for complaints."""
        if isinstance(self.value, dict | list):
            return "an object" if isinstance(self.value, dict) else "a list"
        return "nothing" if self.value is None else json.dumps(self.value, ensure_ascii=False, default=str)


def dotted(path: Path) -> str:
    """`cases[0].turns[1].user`."""
    return "".join(_steps(path)).removeprefix(".")


def _steps(path: Path) -> Iterator[str]:
    for step in path:
        yield f"[{step}]" if isinstance(step, int) else f".{step}"
