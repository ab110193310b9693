"""A value in a foreign document, read with errors that state its position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from .. import suite_fields
from .yaml_document import Document, Path

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Node:
    """The value at `path` of a document. Every reading method raises SuiteError for a value of another type."""

    document: Document
    value: Any
    path: Path = ()

    def fail(self, problem: str) -> NoReturn:
        raise self.document.error(problem, self.path)

    def object(self) -> dict[str, Any]:
        return self.convert(suite_fields.checked_object)

    def entries(self) -> dict[str, Node]:
        """The entries of an object, whatever their keys."""
        return {key: Node(self.document, item, (*self.path, key)) for key, item in self.object().items()}

    def get(self, *keys: str) -> Node | None:
        """The first of these entries that exists and is not null: formats use snake_case and camelCase."""
        entries = self.object()
        found = next((key for key in keys if entries.get(key) is not None), None)
        return None if found is None else Node(self.document, entries[found], (*self.path, found))

    def need(self, *keys: str) -> Node:
        """As `get`, for a required entry."""
        found = self.get(*keys)
        return self.fail(f"{keys[0]} is missing") if found is None else found

    def at(self, key: str) -> Node:
        """An entry that is an object; an empty object if it is missing."""
        found = self.get(key) or Node(self.document, {}, self.path)
        found.object()
        return found

    def text_at(self, *keys: str) -> str | None:
        """The string of an entry; None if it is missing or blank."""
        found = self.get(*keys)
        return None if found is None or found.blank else found.text()

    def items_at(self, *keys: str) -> list[Node]:
        """The items of an entry; empty if it is missing."""
        found = self.get(*keys)
        return [] if found is None else found.items()

    @property
    def blank(self) -> bool:
        """Whether the value is a blank string."""
        return isinstance(self.value, str) and not self.value.strip()

    def items(self) -> list[Node]:
        items = self.convert(suite_fields.checked_list)
        return [Node(self.document, item, (*self.path, index)) for index, item in enumerate(items)]

    def text(self) -> str:
        return self.convert(suite_fields.text)

    def choice(self, accepted: tuple[str, ...]) -> str:
        return self.convert(lambda value: suite_fields.choice(value, accepted))

    def convert(self, function: Callable[[Any], T]) -> T:
        """The result of `function` for the value; its ValueError becomes an error with this position."""
        try:
            return function(self.value)
        except ValueError as error:
            raise self.document.error(str(error), (*self.path, *getattr(error, "path", ()))) from None
