"""The value of every option: from a flag, else an environment variable, else the config file, else its default."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import yaml

from ..errors import ConfigError
from .option import Option, Options, environment_name, flag_name

T = TypeVar("T", bound=Options)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The keys of a YAML file, with `_` for `-` and without those set to null, and the lines they are on."""

    path: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)

    def place(self, key: str) -> str:
        """`FILE:LINE`."""
        return f"{self.path}:{self.lines[key]}"


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
        if flags.get(name) not in (None, ()):
            source, value = item.type.metavar if item.positional else flag_name(name), flags[name]
        elif not item.positional and environment_name(name) in environment:
            source, value = environment_name(name), environment[environment_name(name)]
        elif not item.positional and name in file.values:
            source, value = f"{file.place(name)}: {name}", file.values[name]
        elif spec.default is MISSING and spec.default_factory is MISSING:
            raise _missing(name, item)
        else:
            continue
        values[name] = item.parse(source, value)
    return options(**values)


def _missing(name: str, item: Option) -> ConfigError:
    metavar = item.type.metavar
    return ConfigError(
        f"{flag_name(name)} is required: give {flag_name(name)} {metavar}, set {environment_name(name)}, or write "
        f"'{name}: {metavar}' in the config file"
    )


def read_config_file(path: str, known: Collection[str]) -> ConfigFile:
    """The settings in a YAML file. Raises ConfigError if it cannot be read or has a key that is not `known`."""
    try:
        content, lines = _read_yaml(Path(path).read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"--config: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--config: {path} is not UTF-8 text") from None
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"--config: {path}{where} is not valid YAML: {getattr(error, 'problem', error)}") from None
    if content is None:
        return ConfigFile()
    if not isinstance(content, dict):
        raise ConfigError(f"--config: {path} contains no settings; expected lines such as 'upstream: URL'")
    file = ConfigFile(path, {_name(key): value for key, value in content.items() if value is not None}, lines)
    for key in map(_name, content):
        if key not in known:
            from tool_call_evaluators.options import or_known  # slow to import

            raise ConfigError(f"{file.place(key)}: unknown setting {key!r}{or_known(key, sorted(known))}")
    return file


def _read_yaml(text: str) -> tuple[Any, dict[str, int]]:
    """The content, and the lines of the keys of a mapping."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        content = None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return content, {_name(loader.construct_object(key)): key.start_mark.line + 1 for key, _ in pairs}


def _name(key: Any) -> str:
    return str(key).replace("-", "_")
