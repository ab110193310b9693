"""One option of a command: declared once, as a field of a dataclass, for flag, variable, config file and help."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, dataclass_transform

from ..errors import ConfigError
from .parsing import ValueType
from .store_url import is_postgres, masked_url

ENV_PREFIX = "A2A_EVAL_PROXY_"


class OptionGroup(StrEnum):
    """Headings in the help of commands with many options, in this order."""

    AGENT = "Agent and clients"
    RUN = "Runs and scores"
    USER = "Simulated users"
    TRACES = "Traces"
    ADMIN = "Admin"
    TLS = "TLS and identity"
    PRIVACY = "Privacy"
    LIMITS = "Limits"
    OTHER = "Other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What is known of an option apart from its name, which is that of the field, and its default."""

    type: ValueType
    help: str
    group: OptionGroup = OptionGroup.OTHER
    secret: bool = False
    """Whether errors and `repr` mask the value."""
    repeatable: bool = False
    references: bool = False
    """Whether `${VARIABLE}` and `${file:PATH}` in it are expanded."""
    positional: bool = False
    """Whether it is an argument of the command line, which no variable or file sets."""
    alias: str | None = None
    """A second flag."""
    no_flag: str | None = None
    """Help of a flag `--no-NAME` that means `off`."""

    def masked(self, value: Any) -> str:
        """`value` as a message may show it."""
        if self.secret:
            return "***"
        may_hold_password = isinstance(value, str) and ("@" in value or is_postgres(value))
        return repr(masked_url(value) if may_hold_password else value)

    def parse(self, source: str, value: Any) -> Any:
        """The parsed value; `source` says where `value` was found. Raises ConfigError."""
        try:
            return self.type.parse(value)
        except ValueError as error:
            raise ConfigError(f"{source}: {error}, got {self.masked(value)}{self._meant(value)}") from None

    def _meant(self, value: Any) -> str:
        if not self.type.choices or not isinstance(value, str):
            return ""
        from tool_call_evaluators.options import did_you_mean  # slow to import

        return did_you_mean(value, self.type.choices)


def option(
    type: ValueType,  # noqa: A002
    help: str,  # noqa: A002
    default: Any = dataclasses.MISSING,
    *,
    required: bool = False,
    **details: Any,
) -> Any:
    """A dataclass field for an option; `details` are further fields of `Option`. `default`: by its type."""
    metadata = {"option": Option(type=type, help=help, **details)}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=type.unset if default is dataclasses.MISSING and not required else default, metadata=metadata)


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Options:
    """Base of the classes that declare options, which are frozen dataclasses with keywords.

    `repr` shows what is not default, and masks secrets.
    """

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True, repr=False)(cls)

    def __repr__(self) -> str:
        values = ((spec, getattr(self, spec.name)) for spec in dataclasses.fields(self))  # type: ignore[arg-type]
        given = (
            f"{spec.name}={spec.metadata['option'].masked(value)}" for spec, value in values if value != spec.default
        )
        return f"{type(self).__name__}({', '.join(given)})"


def options_of(options: type) -> Mapping[str, Option]:
    """The options declared by a dataclass, by name."""
    return {item.name: item.metadata["option"] for item in dataclasses.fields(options)}


def flag_name(name: str) -> str:
    """The flag of an option: `--admin-token` for `admin_token`."""
    return "--" + name.replace("_", "-")


def environment_name(name: str) -> str:
    """The environment variable of an option: `A2A_EVAL_PROXY_LISTEN` for `listen`."""
    return ENV_PREFIX + name.upper()
