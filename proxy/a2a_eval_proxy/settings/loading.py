"""The value of every option: from a flag, else an environment variable, else the config file, else its default."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from a2a_tool_capture.secret_references import unset_variables

from ..errors import ConfigError
from .option import Option, Options, environment_name, flag_name

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
        if flags.get(name) not in (None, ()):
            source, value = item.type.metavar if item.positional else flag_name(name), flags[name]
        elif not item.positional and environment_name(name) in environment:
            source, value = environment_name(name), environment[environment_name(name)]
        elif not item.positional and name in file.values:
            source, value = f"{file.places[name]}: {name}", file.values[name]
            if item.references and (unset := unset_variables(str(value))):
                raise ConfigError(f"{source}: needs the environment variable {unset[0]}, which is not set")
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
    """The settings in a YAML file.

    Raises ConfigError if it cannot be read, repeats a key, or has a key that is not `known`.
    """
    from tool_call_evaluators.suite.yaml_document import SuiteError, read_document  # slow to import

    try:
        text = Path(path).read_text("utf-8")
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
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        position = document.position((key,))
        place = f"{path}:{position[0]}" if position else path
        if name not in known:
            from tool_call_evaluators.options import or_known  # slow to import

            raise ConfigError(f"{place}: unknown setting {name!r}{or_known(name, sorted(known))}")
        if places.setdefault(name, place) != place:
            raise ConfigError(f"{place}: {name} is already set in {places[name]}")
        if value is not None:
            values[name] = value
    return ConfigFile(values, places)
