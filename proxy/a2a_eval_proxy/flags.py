"""Commands whose flags may also stand in the environment or a YAML file: flags win, then environment, then file."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from .config import SETTINGS, environment_name, read_config_file
from .errors import ConfigError
from .helptext import HelpfulCommand, option_key


class _Lines(click.types.StringParamType):
    """Text of which a variable may hold several, one a line: blanks may be in it."""

    envvar_list_splitter = "\n"


class Command(HelpfulCommand):
    """A command with a variable for every flag, and `--config` for a file with those of any command."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for option in _options(self):
            option.envvar = environment_name(option_key(option))
            if option.multiple:
                option.type = _Lines()
        config = click.Option(
            ["--config"],
            metavar="FILE",
            envvar=environment_name("config"),
            is_eager=True,  # before the flags for which it has values
            expose_value=False,
            callback=_take_from_file,
            help="YAML file with settings.",
        )
        self.params.append(config)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; what is wrong in the environment or the file is said to be there, and not in a flag."""
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            if isinstance(error.param, click.Option) and error.param.name:
                source = ctx.get_parameter_source(error.param.name)
                if source is ParameterSource.ENVIRONMENT:
                    error.param_hint = str(error.param.envvar)
                elif source is ParameterSource.DEFAULT_MAP:
                    error.param_hint = f"{option_key(error.param)} in the config file"
            raise


def known_settings(context: click.Context) -> set[str]:
    """The keys that a config file may have: the flags of all commands, so that one file serves them all."""
    group = context.find_root().command
    commands = group.commands.values() if isinstance(group, click.Group) else [group]
    flags = {option_key(option) for command in commands if isinstance(command, Command) for option in _options(command)}
    return {*SETTINGS, *flags} - {"config"}


def _take_from_file(context: click.Context, _: click.Parameter, file: str | None) -> None:
    values = read_config_file(file, known_settings(context))
    context.default_map = {}
    for option in _options(context.command):
        key = option_key(option)
        if option.name and key in values:
            try:
                context.default_map[option.name] = _value(values[key], option)
            except ValueError as error:
                raise ConfigError(f"{file}: {key}: {error}") from None


def _value(value: Any, option: click.Option) -> Any:
    multiple = option.multiple
    if option.type is click.UNPROCESSED:  # its callback reads it
        return value
    if not multiple and isinstance(value, list | dict):
        raise ValueError("expected one value")
    if not multiple:
        return value
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str) for item in values):
        raise ValueError("expected a text or a list of texts, in quotes where they have a colon")
    return values


def _options(command: click.Command) -> list[click.Option]:
    return [option for option in command.params if isinstance(option, click.Option)]
