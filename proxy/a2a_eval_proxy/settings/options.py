"""Options of commands, declared once, as fields of a dataclass: for flag, variable, config file and help.

The value of each is from a flag, else an environment variable, else the config file, else its default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

from a2a_tool_capture.secret_references import unset_variables

from ..errors import ConfigError
from .parsing import ValueType, named_texts
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


_OptionsClass = type["Options"]  # in `Option`, `type` is a field


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
    parts: _OptionsClass | None = None
    """The class of an object, whose fields flag, variable and file set one by one."""
    no_flag: str | None = None
    """Help of a flag `--no-NAME` that means `off`."""
    of_agent: bool = False
    """Whether each of several agents may have its own; of a part of an object, where it may have the object."""
    names_agent: bool = False
    """Whether it is a URL behind which `/agents/NAME` stands for one of several agents."""

    @property
    def is_secret_as_a_whole(self) -> bool:
        """Whether the value is a token, a password or a key. Headers are not: many of them are no secret."""
        return self.secret and not self.type.metavar.startswith("NAME")

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

    def __post_init__(self) -> None:
        """Raises ConfigError for options that do not fit together. Each class asks the next one, too."""

    def __repr__(self) -> str:
        values = ((spec, getattr(self, spec.name)) for spec in dataclasses.fields(self))  # type: ignore[arg-type]
        given = (
            f"{spec.name}={spec.metadata['option'].masked(value)}"
            for spec, value in values
            if value != (spec.metadata["option"].parts or (lambda default=spec.default: default))()
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


def object_option(parts: type[Options], help: str, **details: Any) -> Any:  # noqa: A002
    """A dataclass field for an object with the options that `parts` declares. It is repeatable."""
    return option(object_type(parts), help, parts, parts=parts, repeatable=True, **details)


def object_type(parts: type[Options]) -> ValueType:
    """Reads what is given of such an object: a mapping, or text as NAME=VALUE,NAME=VALUE. Returns its values by
    name."""
    known = options_of(parts)

    def parse(value: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, one in _pairs(value):
            name = key.replace("-", "_")
            if name not in known:
                from tool_call_evaluators.options import or_known  # slow to import

                raise ValueError(f"unknown name {key!r}{or_known(name, sorted(known))}")
            try:
                found[name] = known[name].type.parse(one)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return found

    return ValueType(parse, "NAME=VALUE,...")


def _pairs(value: Any) -> list[tuple[str, Any]]:
    """Raises ValueError for what is neither a mapping nor text."""
    if isinstance(value, Mapping):
        return [(str(key), one) for key, one in value.items() if one is not None]
    texts = value if isinstance(value, list | tuple) else [value]
    pairs = named_texts(",".join(texts)) if all(isinstance(one, str) for one in texts) else []
    if not pairs or not all(text for _, text in pairs):
        raise ValueError("expected NAME=VALUE,NAME=VALUE, or in a config file a mapping")
    return pairs


T = TypeVar("T", bound=Options)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The keys of a YAML file, with `_` for `-` and without those set to null, and the place of each: `FILE:LINE`."""

    values: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)


def load(
    options: type[T],
    flags: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    file: ConfigFile | None = None,
) -> T:
    """An instance of the dataclass `options`, each field an `option`. A flag that is None or () was not given.

    Raises ConfigError, which names the source of the wrong value: flag, variable, or file and line.
    """
    environment, file = environment or {}, file or ConfigFile()
    values: dict[str, Any] = {}
    for spec in fields(options):  # type: ignore[arg-type]  # of a dataclass
        name = spec.name
        item: Option = spec.metadata["option"]
        given: list[tuple[str, Any]] = []  # where it is given, and what; the last one wins
        if not item.positional and name in file.values:
            given.append((f"{file.places[name]}: {name}", file.values[name]))
        if not item.positional and environment_name(name) in environment:
            given.append((environment_name(name), environment[environment_name(name)]))
        if flags.get(name) not in (None, ()):
            given.append((item.type.metavar if item.positional else flag_name(name), flags[name]))
        if item.parts is not None:
            parsed = [item.parse(source, value) for source, value in given]
            values[name] = item.parts(**{part: one for found in parsed for part, one in found.items()})
        elif given:
            source, value = given[-1]
            if item.references and name in file.values and (unset := unset_variables(str(value))):
                raise ConfigError(f"{source}: needs the environment variable {unset[0]}, which is not set")
            values[name] = item.parse(source, value)
        elif spec.default is MISSING and spec.default_factory is MISSING:
            raise missing(name, item)
    return options(**values)


def missing(name: str, item: Option) -> ConfigError:
    """The error for a required option that is not given."""
    metavar = item.type.metavar
    return ConfigError(
        f"{flag_name(name)} is required: give {flag_name(name)} {metavar}, set {environment_name(name)}, or write "
        f"'{name}: {metavar}' in the config file"
    )


def read_config_file(path: str, known: Collection[str] | None) -> ConfigFile:
    """The settings in a YAML file.

    Raises ConfigError if it cannot be read, repeats a key, or has a key that is not `known` (None: any is).
    """
    from tool_call_evaluators.suite.yaml_document import MAX_BYTES, SuiteError, read_document  # slow to import

    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(MAX_BYTES + 1)
        has_content = any(line.strip() and line.strip()[0] != "#" for line in text.splitlines())
        document = read_document(text if has_content else "{}", path)
    except OSError as error:
        raise ConfigError(f"--config: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--config: {path} is not UTF-8 text") from None
    except SuiteError as error:
        raise ConfigError(f"--config: {error}") from None
    content = document.value or {}
    if not isinstance(content, dict):
        raise ConfigError(f"--config: {path} contains no settings; expected lines such as 'upstream: URL'")
    if "cases" in content:
        raise ConfigError(f"--config: {path} is a suite; expected a file with settings such as 'agent: URL'")
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        position = document.position((key,))
        place = f"{path}:{position[0]}" if position else path
        if known is not None and name not in known:
            from tool_call_evaluators.options import or_known  # slow to import

            raise ConfigError(f"{place}: unknown setting {name!r}{or_known(name, sorted(known))}")
        if places.setdefault(name, place) != place:
            raise ConfigError(f"{place}: {name} is already set in {places[name]}")
        if value is not None:
            values[name] = value
    return ConfigFile(values, places)
