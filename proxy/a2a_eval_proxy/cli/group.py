"""The group of all commands, and what a command ends with: an exit code, and one sentence for each failure."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import tempfile
import traceback

import click
from a2a_tool_capture import __version__

from ..errors import BAD_INPUT, UNREACHABLE
from ..feature import features
from .serve import serve
from .suites import evaluate, run

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


for _command in (serve, run, evaluate, *(command for feature in features() for command in feature.commands)):
    cli.add_command(_command)


def run_command() -> None:
    """Run the command of `sys.argv` and exit: every failure is one sentence on stderr and an exit code."""
    if os.environ.get("COLUMNS") == "0":  # as some programs say that they know no width; reports would be empty
        del os.environ["COLUMNS"]
    try:
        code = cli(standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code)
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(BAD_INPUT)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" (see '{context.command_path} --help')" if context else ""
        _fail(f"{error.format_message()}{hint}", BAD_INPUT)
    except (Exception, asyncio.CancelledError, BaseExceptionGroup) as error:  # noqa: BLE001
        _fail(*_failure(error))


_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""What is wrong with the machine, and not with a path that the user gave."""


def _failure(error: BaseException) -> tuple[str, int]:
    """The sentence for an exception, and the exit code: its own `exit_code`, that of a file, else UNREACHABLE and
    where the traceback is. It is never that of a verdict."""
    whole = error
    while isinstance(error, BaseExceptionGroup):
        error = next((one for one in error.exceptions if hasattr(one, "exit_code")), error.exceptions[0])
    if isinstance(error, SystemExit):
        raise error
    if _was_interrupted(error):
        raise KeyboardInterrupt
    if isinstance(code := getattr(error, "exit_code", None), int):
        return str(error), code
    if isinstance(error, OSError) and error.filename and error.errno not in _MACHINE:
        return f"{error.filename}: {error.strerror}", BAD_INPUT
    said = " ".join(str(error).split())
    return f"unexpected {type(error).__name__}{said and f': {said}'} ({_kept_traceback(whole)})", UNREACHABLE


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind it: what calls back from C, such as the making of a class, raises an error of its own
    from the KeyboardInterrupt."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _kept_traceback(error: BaseException) -> str:
    """Where the traceback is: in a new file, for this user only."""
    from ..telemetry.logs import without_secrets

    text = without_secrets("".join(traceback.format_exception(error)))
    try:
        descriptor, path = tempfile.mkstemp(".txt", "a2a-eval-proxy-error-")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as problem:
        return f"its traceback cannot be written: {problem.strerror or problem}"
    return f"its traceback is in {path}"


def _fail(message: str, code: int) -> None:
    from ..telemetry.logs import without_secrets

    shown = without_secrets(message).replace("\x1b", "\N{REPLACEMENT CHARACTER}")  # it may quote an agent or a file
    click.echo(f"a2a-eval-proxy: {shown}", err=True)
    sys.exit(code)
