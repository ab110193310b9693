"""The public API, name by name with its signatures: `public_api.txt`. A difference there is a change that users notice.

`python tests/test_public_api.py` writes the file. What is new goes into CHANGELOG.md; what changes or goes needs a
deprecation before it: proxy/docs/promises.md.
"""

from __future__ import annotations

import difflib
import enum
import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SNAPSHOT = Path(__file__).with_name("public_api.txt")
MADE_BY_FUNCTIONS = {"RunningProxy"}
"""Classes whose constructor is not for users."""
OURS = ("a2a_tool_capture", "tool_call_evaluators", "a2a_eval_proxy")


class Written(str):
    """What a signature shows without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def written(annotation: Any) -> Any:
    text = getattr(annotation, "__forward_arg__", annotation)
    return Written(text) if isinstance(text, str) else annotation


def default(value: Any) -> Any:
    """As it is, if it is short and the same everywhere."""
    return value if isinstance(value, bool | int | float | str | tuple | type(None)) else Written("...")


def signature(function: Any) -> str:
    found = inspect.signature(function)
    parameters = [
        one.replace(
            annotation=written(one.annotation),
            default=one.default if one.default is inspect.Parameter.empty else default(one.default),
        )
        for one in found.parameters.values()
    ]
    return str(found.replace(parameters=parameters, return_annotation=written(found.return_annotation)))


def members(value: type, listed: frozenset[type]) -> Iterator[str]:
    """The public members that classes of ours define, each with its signature; those of a framework's interface are
    the framework's, and what a base defines that is `listed` is listed there."""
    seen = {name for owner in value.__mro__ if not owner.__module__.startswith(OURS) for name in vars(owner)}
    for owner in value.__mro__:
        if not owner.__module__.startswith(OURS):
            continue
        if owner is not value and owner in listed:
            seen |= vars(owner).keys()
            continue
        for name, member in vars(owner).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if inspect.isfunction(plain):
                yield f"{name}{signature(plain)}"
            elif isinstance(member, property):
                yield name


def lines_of(name: str, value: Any, listed: frozenset[type]) -> Iterator[str]:
    if inspect.isclass(value):
        if issubclass(value, enum.Enum):
            yield f"{name}: {', '.join(member.name for member in value)}"
        elif issubclass(value, BaseException):
            yield f"{name}: {', '.join(base.__name__ for base in value.__mro__[1:-3])}"
        else:
            yield name if name in MADE_BY_FUNCTIONS else f"{name}{signature(value)}"
        yield from sorted(f"{name}.{member}" for member in members(value, listed))
    elif inspect.isfunction(value):
        yield f"{name}{signature(value)}"
    else:
        yield f"{name}: {type(value).__name__}"


def public_api() -> str:
    from support.public_api import PUBLIC_MODULES

    packages = {module: importlib.import_module(module) for module in PUBLIC_MODULES}
    public = {
        module: {name: getattr(package, name) for name in sorted(package.__all__)}
        for module, package in packages.items()
    }
    listed = frozenset(value for named in public.values() for value in named.values() if inspect.isclass(value))
    lines = []
    for module, named in public.items():
        for name, value in named.items():
            lines += [f"{module}.{line}" for line in lines_of(name, value, listed)]
    return "\n".join(lines) + "\n"


def test_the_public_api_is_as_written_down() -> None:
    before, now = SNAPSHOT.read_text("utf-8").splitlines(), public_api().splitlines()
    changes = [line for line in difflib.ndiff(before, now) if line[0] in "+-"]
    assert changes == [], "run `python tests/test_public_api.py` if this is meant, and say so in CHANGELOG.md"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    SNAPSHOT.write_text(public_api(), "utf-8")
