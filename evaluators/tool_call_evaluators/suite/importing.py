"""Helpers of importers of other formats. Unknown keys are no error, as the formats grow, but are noted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ..matching.placeholders import quoted
from ..model import ExpectedCall
from ..options import did_you_mean, snake_case
from .model import Case
from .writing import free_id
from .yaml_document import Node


class Notes:
    """What was not imported: one sentence for each kind, with the number of its occurrences."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, sentence: str) -> None:
        self._counts[sentence] += 1

    def unknown_keys(self, node: Node, known: Collection[str], name: str) -> None:
        """Add the keys of an object that are not `known`; `name` is what the object is called."""
        for key in sorted(node.object().keys() - set(known)):
            self.add(f"key {key} of {name} is unknown{did_you_mean(key, known)}")

    def dropped(
        self, node: Node, known: Iterable[str], name: str, reasons: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Add the keys of an object, called `name`, that are not imported: those that are not `known` (in snake_case)
        and say something. `reasons`: what is added to the sentence, by key."""
        known = set(known)
        for key, value in node.object().items():
            plain = snake_case(key)
            if plain not in known and value not in (None, False, "", [], {}):
                reason = f": {reasons[plain]}" if plain in reasons else ""
                self.add(f"{key} of {name} was not imported{reason}")

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(f"{text} ({count} times)" if count > 1 else text for text, count in self._counts.items())


def expected_call(node: Node, *arguments_names: str, notes: Notes | None = None) -> ExpectedCall:
    """`{name, <one of arguments_names>}` as an expected call whose arguments are taken literally. Further keys but an
    `id` are noted in `notes`."""
    name, arguments = node.need("name").text(), node.get(*arguments_names)
    if notes is not None:
        notes.dropped(node, ("id", "name", *arguments_names), "an expected call")
    return ExpectedCall(name, {} if arguments is None else quoted(arguments.object()))


def user_text(inputs: Mapping[str, Any], notes: Notes) -> str:
    """The user message for an agent's named inputs: the only string, or the one named like a message, else JSON.
    Notes the inputs that are not in the message."""
    texts = {name: value for name, value in inputs.items() if isinstance(value, str) and value.strip()}
    if len(inputs) == 1 and texts:
        return next(iter(texts.values()))
    for name in ("message", "input", "query", "question", "prompt", "user_input", "userInput", "task", "text"):
        if name in texts:
            if len(inputs) > 1:
                notes.add(f"of several inputs, only {name} is sent; the others were not imported")
            return texts[name]
    return json.dumps(inputs, ensure_ascii=False)


def unique_ids(cases: Iterable[Case]) -> tuple[Case, ...]:
    """The same cases, with a number appended to repeated ids."""
    taken: set[str] = set()
    return tuple(replace(case, id=free_id(case.id, taken)) for case in cases)
