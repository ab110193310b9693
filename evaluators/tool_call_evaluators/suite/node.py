"""A value in a foreign document, read with errors that state its position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from .. import declared
from .yaml_document import Document, Path

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Node:
    """The value at `path` of a document. Every reading method raises DocumentError for a value of another type."""

    document: Document
    value: Any
    path: Path = ()

    def fail(self, problem: str) -> NoReturn:
        """Raise an error about this value."""
        raise self.document.error(problem, self.path)

    def entries(self) -> dict[str, Node]:
        """The entries of an object, whatever their keys."""
        entries = self.convert(declared.checked_object)
        return {key: Node(self.document, item, (*self.path, key)) for key, item in entries.items()}

    def items(self) -> list[Node]:
        """The items of a list."""
        items = self.convert(declared.checked_list)
        return [Node(self.document, item, (*self.path, index)) for index, item in enumerate(items)]

    def text(self) -> str:
        """A string that is not blank."""
        return self.convert(declared.text)

    def texts(self) -> tuple[str, ...]:
        """A list of strings."""
        return self.convert(lambda value: declared.each(declared.text, value))

    def text_or_texts(self) -> tuple[str, ...]:
        """One string, or a list of strings."""
        return self.convert(declared.text_or_texts)

    def boolean(self) -> bool:
        return self.convert(declared.boolean)

    def choice(self, accepted: tuple[str, ...]) -> str:
        """One of the words `accepted`."""
        return self.convert(lambda value: declared.choice(value, accepted))

    def convert(self, function: Callable[[Any], T]) -> T:
        """The result of `function` for the value; its ValueError becomes an error with this position."""
        try:
            return function(self.value)
        except ValueError as error:
            raise self.document.error(str(error), (*self.path, *getattr(error, "path", ()))) from None
