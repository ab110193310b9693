"""A command: a function of one value, a dataclass of options. click parses the flags and writes the help."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import signal
import sys
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import GATE_FAILED
from ..settings.options import (
    ENV_PREFIX,
    Option,
    OptionGroup,
    Options,
    environment_name,
    flag_name,
    load,
    options_of,
    read_config_file,
)
from ..settings.parsing import FLAG, SWITCH

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T", bound=Options)
R = TypeVar("R")


_NO_TERMINAL = 120  # characters of a line where there is no terminal, such as in the log of a CI job
_MANY = 12  # a command with more options than this has headings in its help

_OTHER_VARIABLES = tuple(
    f"{ENV_PREFIX}{name}_{key}"
    for name, keys in (
        ("JUDGE", ("MODEL", "BASE_URL", "API_KEY")),
        ("SIMULATED_USER", ("MODEL", "BASE_URL", "API_KEY")),
        ("AGENT", ("API_KEY",)),
    )
    for key in keys
)
"""Variables of models, which are no options of a command."""

_OF_A_SERVICE = re.compile(r"_SERVICE_(HOST|PORT)(_\w+)?$|_PORT(_\d+_(TCP|UDP)(_\w+)?)?$")
"""The names end like this: https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables"""

_EPILOG = (
    "Each option is also an environment variable (A2A_EVAL_PROXY_ and the name in capitals, with _ for -) and a key of "
    "the --config file (the name, with _ for -). Flags take precedence, then variables, then the file."
)

CONFIG_FILE = "a2a-eval-proxy.yaml"
"""The file with settings that is read where a command runs, if no other is named."""


class Command(click.Command):
    """Calls `function` with an instance of the dataclass `options`; if it returns False, the exit code is 1."""

    def __init__(self, options: type[T], function: Callable[[T], bool | None]) -> None:
        config = click.Option(
            ["--config"],
            metavar="FILE",
            help=f"YAML file with settings, for any of the commands. Default: {CONFIG_FILE}, if it is here.",
        )
        own = options.__annotations__  # first; those that it inherits last
        declared: list[Field[Any]] = sorted(fields(options), key=lambda spec: spec.name not in own)  # type: ignore[arg-type]
        params = [param for spec in declared for param in _parameters(spec)]
        super().__init__(function.__name__, params=[*params, config], help=inspect.getdoc(function))
        self.options = options
        self._function = function

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, with a hint for an agent's URL in the wrong place."""
        given = [*args]
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            url = next((word for word in given if word.startswith(("http://", "https://"))), None)
            if not (url and f"argument ({url})" in error.message and "agent" in options_of(self.options)):
                raise
            raise click.UsageError(f"{error.message}; give the agent's URL as --agent {url}", ctx) from None

    def invoke(self, ctx: click.Context) -> None:
        """Call the function with the options from flags, environment and file. Raises ConfigError."""
        flags = dict(ctx.params)
        _warn_of_unknown_variables(_known_keys(ctx))
        del flags["config"]
        path = ctx.params["config"] or os.environ.get(environment_name("config"))
        if not path and Path(CONFIG_FILE).is_file():
            path = CONFIG_FILE
        file = read_config_file(path, _known_keys(ctx)) if path else None
        loaded = load(self.options, flags, os.environ, file)
        _warn_of_secrets(self.options, flags)
        if self._function(loaded) is False:
            ctx.exit(GATE_FAILED)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, below headings if there are many."""
        declared = options_of(self.options)
        records = [
            (declared[param.name].group if param.name in declared else OptionGroup.OTHER, record)
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx))
        ]
        if len(records) <= _MANY:
            with formatter.section("Options"):
                formatter.write_dl([record for _, record in records])
            return
        for heading in OptionGroup:
            if rows := [record for group, record in records if group == heading]:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write where else options may stand."""
        formatter.write_paragraph()
        formatter.write_text(_EPILOG)


def command(options: type[T]) -> Callable[[Callable[[T], bool | None]], Command]:
    """Make a function a command of its name; its docstring is the help."""
    return lambda function: Command(options, function)


def _parameters(spec: Field[Any]) -> Iterator[click.Parameter]:
    name, flag = spec.name, flag_name(spec.name)
    option: Option = spec.metadata["option"]
    if option.positional:
        required = spec.default is MISSING
        nargs = -1 if option.repeatable else 1
        yield click.Argument([name], required=required, nargs=nargs, metavar=option.type.metavar)
    elif option.type is FLAG:
        names = [flag, *([option.alias] if option.alias else []), name]
        yield click.Option(names, is_flag=True, default=None, help=option.help)
    elif option.type is SWITCH:
        yield click.Option([f"{flag}/--no-{flag[2:]}", name], default=None, help=option.help)
    else:
        yield click.Option(
            [flag, *([option.alias] if option.alias else []), name],
            metavar=option.type.metavar,
            multiple=option.repeatable,
            help=option.help + _default(spec),
        )
    if option.no_flag:
        yield click.Option([f"--no-{flag[2:]}", name], flag_value="off", default=None, help=option.no_flag)


def _default(spec: Field[Any]) -> str:
    if spec.default is MISSING:
        return "  [required]" if spec.default_factory is MISSING else ""
    return "" if spec.default in (None, (), "") else f"  [default: {spec.default}]"


def _known_keys(ctx: click.Context) -> set[str]:
    """The keys that a config file may have: the options of all commands, so that one file serves them all."""
    group = ctx.find_root().command
    commands = group.commands.values() if isinstance(group, click.Group) else [group]
    declared = [options_of(command.options) for command in commands if isinstance(command, Command)]
    return {name for options in declared for name, option in options.items() if not option.positional}


def _warn_of_secrets(options: type[Options], flags: Mapping[str, Any]) -> None:
    """Name flags with a secret, which the list of processes shows to every user of the machine."""
    for name, item in options_of(options).items():
        value = flags.get(name)
        if item.is_secret_as_a_whole and isinstance(value, str) and "${" not in value:
            by_file = f", or give '{flag_name(name)} ${{file:PATH}}'" if item.references else ""
            click.echo(
                f"warning: {flag_name(name)}: other users of this machine can read it in the list of processes (ps); "
                f"set the variable {environment_name(name)}{by_file}",
                err=True,
            )


def _warn_of_unknown_variables(options: Collection[str]) -> None:
    """Name variables with our prefix that nothing reads, but for those that Kubernetes sets for a Service."""
    known = {*map(environment_name, (*options, "config")), *_OTHER_VARIABLES}
    for name in sorted(os.environ):
        if name.startswith(ENV_PREFIX) and name not in known and not _OF_A_SERVICE.search(name):
            from tool_call_evaluators.options import did_you_mean  # slow to import

            click.echo(f"warning: nothing reads the variable {name}{did_you_mean(name, known)}", err=True)


def wide_console(*, silent: bool = False) -> Console:
    """Standard output for tables: as wide as the terminal; in files and pipes, 120 characters.

    With `silent`, it prints nothing.
    """
    from rich.console import Console

    open_width = partial(Console, highlight=False, emoji=False, quiet=silent)
    console = open_width()
    return console if console.is_terminal or "COLUMNS" in os.environ else open_width(width=_NO_TERMINAL)


def run_async(work: Coroutine[Any, Any, R]) -> R:
    """Run on uvloop if it is installed (not on Windows). SIGTERM cancels it, as Ctrl-C does, and ends the process."""
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
    with suppress(ImportError):
        from uvloop import new_event_loop as new_loop
    terminated = False

    async def stoppable() -> R:
        task = asyncio.current_task()

        def terminate() -> None:
            nonlocal terminated
            terminated = True
            if task is not None:
                task.cancel()

        with suppress(NotImplementedError, RuntimeError, ValueError):  # on Windows, and outside the main thread
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
        return await work

    with asyncio.Runner(loop_factory=new_loop) as runner:
        try:
            return runner.run(stoppable())
        except asyncio.CancelledError:
            if terminated:
                sys.exit(_TERMINATED)
            raise


_TERMINATED = 143
"""The exit code after SIGTERM, as a shell has it: 128 and the number of the signal."""
