"""The command line: a group of commands, one module for each or for a few; the exit codes are those of `errors`.

`command` makes a command from a function and a dataclass of options. Heavy imports happen inside the functions, so
that `--help` and errors are quick.
"""

from __future__ import annotations

import sys

import click
from a2a_tool_capture import __version__

from ..children import leave_process_one
from ..errors import BAD_INPUT, ConfigError
from .agents import check, doctor, init, send
from .output import guarded_output
from .run import evaluate, run
from .serve import demo, mcp, serve, ui, worker
from .stored import accept, backup, calibrate, compare, export, migrate, prune, record, restore, runs, show
from .suites import convert, evaluators, schema, validate

_SETTINGS = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 120,
    "token_normalize_func": lambda token: token.replace("_", "-"),  # --output_dir is --output-dir
}


@click.group(context_settings=_SETTINGS)
@click.version_option(__version__, prog_name="a2a-eval-proxy")
def cli() -> None:
    """Captures the tool calls of an A2A agent and scores them. Try `a2a-eval-proxy demo`.

    \b
    Exit codes: 0 passed, 1 a gate failed, 2 bad usage or input, 3 agent or infrastructure unreachable.
    """


_RUNNING = (init, doctor, serve, run, send, check, worker, mcp, demo)
_STORED = (evaluate, runs, show, ui, compare, accept, calibrate, export, record, prune, migrate, backup, restore)
_SUITES = (validate, evaluators, schema, convert)

for _command in (*_RUNNING, *_STORED, *_SUITES):
    cli.add_command(_command)


def main() -> None:
    """Entry point: every expected failure is one sentence on stderr and an exit code."""
    leave_process_one()
    with guarded_output():
        _run()


def _run() -> None:
    try:
        sys.exit(cli(standalone_mode=False))
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(BAD_INPUT)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" (see '{context.command_path} --help')" if context else ""
        _fail(f"{error.format_message()}{hint}", BAD_INPUT)
    except ConfigError as error:
        _fail(str(error), error.exit_code)
    except Exception as error:
        code, text = getattr(error, "exit_code", None), str(error)
        if code is None and isinstance(error, OSError) and error.filename:
            code, text = BAD_INPUT, f"{error.filename}: {error.strerror}"
        if code is None:  # a bug
            raise
        _fail(text, code)


def _fail(message: str, code: int) -> None:
    from ..telemetry.logs import without_secrets

    shown = without_secrets(message).replace("\x1b", "\N{REPLACEMENT CHARACTER}")  # it may quote an agent or a file
    click.echo(f"a2a-eval-proxy: {shown}", err=True)
    sys.exit(code)
