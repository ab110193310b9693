"""The command line. Heavy imports happen inside the commands, so that `--help` and errors are quick."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import os
import ssl
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from a2a_tool_capture import __version__
from a2a_tool_capture.dialects import DIALECTS
from a2a_tool_capture.errors import AgentError, AgentUnreachable, ConfigurationError

from .config import (
    DEFAULT_STORE,
    SETTINGS,
    Settings,
    check_pair,
    environment_name,
    load_settings,
    parse_dialects,
    parse_header_lines,
    parse_url,
)
from .errors import ConfigError
from .flags import Command, known_settings
from .helptext import HelpfulCommand
from .location import is_postgres, shown
from .redaction import Rule
from .redactionrules import parse_rules

if TYPE_CHECKING:
    from .rescoring import Engine

PASSED, GATE_FAILED, BAD_INPUT, UNREACHABLE = 0, 1, 2, 3
"""Exit codes of every command."""

F = TypeVar("F", bound=Callable[..., Any])


class Commands(click.Group):
    """The commands, each with its flags in the environment and in a file, too."""

    command_class = Command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="a2a-eval-proxy")
def cli() -> None:
    """Sees the tool calls an A2A agent makes, and scores them. `a2a-eval-proxy demo` shows it at work.

    \b
    Exit codes: 0 passed, 1 a gate failed, 2 bad usage or input, 3 agent or infrastructure unreachable.
    """


def settings_options(function: F) -> F:
    """One flag for each field of Settings."""
    for spec in reversed(dataclasses.fields(Settings)):
        metadata = spec.metadata
        help_text = metadata["help"]
        if spec.default not in (None, (), dataclasses.MISSING) and not isinstance(spec.default, bool):
            help_text += f"  [default: {spec.default}]"
        flag = "--" + spec.name.replace("_", "-")
        if spec.name.startswith("no_"):
            option = click.option(flag, spec.name, is_flag=True, default=None, help=help_text)
        elif isinstance(spec.default, bool):
            option = click.option(f"{flag}/--no-{flag[2:]}", spec.name, default=None, help=help_text)
        else:
            metavar = f"[{'|'.join(metadata['choices'])}]" if "choices" in metadata else metadata.get("metavar", "TEXT")
            several = metadata.get("multiple", False)
            option = click.option(flag, spec.name, metavar=metavar, multiple=several, help=help_text)
        function = option(function)
    return click.option("--no-otlp", is_flag=True, help="Receive no OpenTelemetry traces.")(function)


store_option = functools.partial(
    click.option, "--store", default=DEFAULT_STORE, show_default=True, metavar="URL_OR_PATH"
)
stored_option = store_option(help="Where the turns are.")
plugins_option = click.option(
    "--allow-plugins", is_flag=True, help="Run plug-ins of the suite that are outside its folder."
)
run_option = functools.partial(click.option, "--run", "run_name", metavar="NAME")
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["suite", "arksim", "google-adk", "uipath", "dokimos"]),
    help="What kind of file the suite is; default: as it looks.",
)


def _made_folder(context: click.Context, option: click.Parameter, folder: Path | None) -> Path | None:
    """Made at once: that it cannot be made is not to be learnt at the end of a run."""
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise click.BadParameter(f"{folder} cannot be made: {error.strerror}.", context, option) from None
    return folder


report_option = click.option(
    "--report",
    metavar="DIR",
    type=click.Path(file_okay=False, writable=True, path_type=Path),
    callback=_made_folder,
    help="Write the report there: report.html, junit.xml, report.json, summary.md; in focus/ suites of what failed.",
)


def _rules(_: click.Context, option: click.Parameter, value: Any) -> tuple[Rule, ...]:
    try:
        return () if value is None else parse_rules(value)
    except ValueError as error:
        raise ConfigError(f"--{option.name}: {error}") from None


def redact_options(function: F) -> F:
    """The settings of `serve` about redaction."""
    key, rules = SETTINGS["redact_key"].metadata, SETTINGS["redact"].metadata
    function = click.option("--redact-key", metavar=key["metavar"], help=key["help"])(function)
    return click.option(
        "--redact", metavar=rules["metavar"], help=rules["help"], type=click.UNPROCESSED, callback=_rules
    )(function)


judge_cache_option = click.option(
    "--no-judge-cache",
    is_flag=True,
    help="Ask the judge anew, also what it was asked before; keep none of its answers.",
)


@cli.command(cls=HelpfulCommand)  # its settings say more of what was wrong, and where
@settings_options
@click.option("--config", "config_file", metavar="FILE", help="YAML file with settings.")
def serve(no_otlp: bool, config_file: str | None, **flags: Any) -> None:
    """Pass traffic through to an agent, and score what it does.

    Every turn is captured with its tool calls, stored and scored.

    Point the client at the proxy's URL instead of the agent's. Prints one line when ready; SIGTERM lets open
    responses finish.

    \b
    Example: a2a-eval-proxy serve --upstream http://127.0.0.1:9999 --suite suite.yaml
    """
    if no_otlp:
        flags["otlp"] = False
    file = config_file or os.environ.get(environment_name("config"))
    settings = load_settings(flags, os.environ, file, known_settings(click.get_current_context()))

    from .serve import serve_until_stopped

    run_async(serve_until_stopped(settings))


header_option = click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME:VALUE",
    help="Send this header with every request; ${VARIABLE} and ${file:PATH} are filled in. Repeatable.",
)


def agent_tls_options(function: F) -> F:
    """How the agent is talked to over HTTPS; the function gets it as `tls`."""

    @functools.wraps(function)
    def with_tls(
        agent_ca: str | None, agent_cert: str | None, agent_key: str | None, agent_key_password: str | None, **rest: Any
    ) -> Any:
        return function(tls=_client_tls(agent_ca, agent_cert, agent_key, agent_key_password), **rest)

    flags = (
        ("--agent-ca", "FILE", "Authorities (PEM) the agent's certificate must come from, in place of the system's."),
        ("--agent-cert", "FILE", "Certificate (PEM, with its chain) that is shown to the agent."),
        ("--agent-key", "FILE", "Private key of that certificate (PEM)."),
        ("--agent-key-password", "TEXT", "Password of that key, where it is encrypted."),
    )
    command: Any = with_tls
    for flag, metavar, help_text in reversed(flags):
        command = click.option(flag, metavar=metavar, help=help_text)(command)
    return cast(F, command)


def _client_tls(ca: str | None, cert: str | None, key: str | None, password: str | None) -> ssl.SSLContext | None:
    check_pair("agent", cert, key)
    if not ca and not cert:
        return None
    from .tls import TlsFiles

    files = TlsFiles(setting="agent", ca_setting="agent_ca", cert=cert, key=key, key_password=password, ca=ca)
    return files.client_context()


@cli.command()
@click.argument("suite", metavar="SUITE")
@click.option("--agent", metavar="URL", help="The agent, or a proxy before it; default: as the suite says.")
@store_option(help="Where turns go.")
@run_option(help="Name of the run; default: the suite's and the time.")
@click.option("--resume", is_flag=True, help="Go on with the run of that name: what it has finished is not done again.")
@report_option
@format_option
@header_option
@agent_tls_options
@click.option("--binding", type=click.Choice(["JSONRPC", "HTTP+JSON"]), help="Default: the first the card offers.")
@click.option("--streaming/--no-streaming", default=None, help="Default: as the card says.")
@click.option(
    "--dialects",
    callback=lambda context, option, value: () if value is None else _dialects(value),
    metavar="NAME,...",
    help=f"Read tool calls that the agent tells in its framework's way too: {', '.join(DIALECTS)}.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Longest time of a turn; default: 300.",
)
@click.option("--concurrency", type=click.IntRange(1, 1000), metavar="N", help="Conversations at once; default: 4.")
@redact_options
@click.option("--no-content", is_flag=True, help=SETTINGS["no_content"].metadata["help"])
@judge_cache_option
@plugins_option
def run(
    suite: str,
    agent: str | None,
    store: str,
    run_name: str | None,
    resume: bool,
    report: Path | None,
    form: str | None,
    headers: tuple[str, ...],
    tls: ssl.SSLContext | None,
    binding: str | None,
    streaming: bool | None,
    dialects: tuple[str, ...],
    timeout: float | None,
    concurrency: int | None,
    redact: tuple[Rule, ...],
    redact_key: str | None,
    no_content: bool,
    no_judge_cache: bool,
    allow_plugins: bool,
) -> None:
    """Drive an agent with the cases of SUITE and score every turn.

    The exit code says whether it passed. What does not run counts as failed: a case without an answer, an
    evaluator that errs, a metric that nobody measured.

    \b
    Example: a2a-eval-proxy run suite.yaml --agent http://127.0.0.1:9999 --report report
    """
    if resume and run_name is None:
        raise ConfigError("--resume: needs the name of the run to go on with, --run NAME")

    from rich.console import Console
    from tool_call_evaluators.suite import AgentDefaults

    from .privacy import privacy_of
    from .runcommand import run_and_show

    options = AgentDefaults(
        url=None if agent is None else _agent_url(agent),
        headers=_headers(headers),
        binding=binding,
        streaming=streaming,
        timeout=timeout,
        concurrency=concurrency,
    )
    console = Console(highlight=False)
    privacy = privacy_of(redact, redact_key, no_content=no_content)
    driving = run_and_show(
        suite,
        form,
        options,
        dialects,
        tls,
        store,
        run_name,
        report,
        console,
        resume=resume,
        privacy=privacy,
        judge_cache=not no_judge_cache,
        allow_plugins=allow_plugins,
    )
    passed = run_async(driving)
    sys.exit(PASSED if passed else GATE_FAILED)


@cli.command()
@stored_option
@run_option(help="Only this run.")
@click.option("--suite", required=True, metavar="FILE", help="Suite file with cases and evaluators.")
@report_option
@format_option
@click.option(
    "--engine",
    type=click.Choice(["in-process", "ray"]),
    default="in-process",
    show_default=True,
    help="Where evaluators run; Ray, on a cluster or on all cores of this machine, pays for slow ones.",
)
@redact_options
@judge_cache_option
@plugins_option
def evaluate(
    store: str,
    run_name: str | None,
    suite: str,
    report: Path | None,
    form: str | None,
    engine: Engine,
    redact: tuple[Rule, ...],
    redact_key: str | None,
    no_judge_cache: bool,
    allow_plugins: bool,
) -> None:
    """Score stored turns again with a suite, without an agent.

    The exit code says whether they passed.

    \b
    Example: a2a-eval-proxy evaluate --run monday --suite suite.yaml
    """
    from rich.console import Console

    from .privacy import privacy_of
    from .runcommand import evaluate_and_show

    privacy = privacy_of(redact, redact_key)
    console = Console(highlight=False)
    scoring = evaluate_and_show(
        suite,
        form,
        store,
        run_name,
        report,
        console,
        privacy=privacy,
        engine=engine,
        judge_cache=not no_judge_cache,
        allow_plugins=allow_plugins,
    )
    passed = run_async(scoring)
    sys.exit(PASSED if passed else GATE_FAILED)


@cli.command()
@click.option("--store", required=True, metavar="URL", help="The PostgreSQL database where the turns are.")
@click.option("--suite", metavar="FILE", help="Suite file with cases and evaluators.")
@click.option(
    "--concurrency",
    default=4,
    show_default=True,
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Jobs at once, each of at most 50 turns: more where judges are waited for.",
)
@click.option(
    "--stalled-after",
    default=30.0,
    show_default=True,
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    help="A worker without sign of life for so long counts as dead: its jobs go to others.",
)
@click.option(
    "--shutdown-timeout",
    default=20.0,
    show_default=True,
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Time for jobs that are under way to end after SIGTERM.",
)
@click.option(
    "--admin", metavar="HOST:PORT", help="Serve /healthz, /readyz and /metrics there; default: a worker has no port."
)
@click.option("--admin-token", metavar="TEXT", help="Bearer token of /metrics; required when it is not on loopback.")
@redact_options
@plugins_option
def worker(
    store: str,
    suite: str | None,
    concurrency: int,
    stalled_after: float,
    shutdown_timeout: float,
    admin: str | None,
    admin_token: str | None,
    redact: tuple[Rule, ...],
    redact_key: str | None,
    allow_plugins: bool,
) -> None:
    """Score what proxies leave pending.

    That is what `serve --no-evaluate` stores in PostgreSQL. Any number of workers share the work. A turn is scored
    once, also when a worker dies over it. Prints one line when ready; SIGTERM lets what is under way end.

    \b
    Example: a2a-eval-proxy worker --store postgresql://user@host/turns --suite suite.yaml
    """
    if not is_postgres(store):
        raise ConfigError(f"--store: workers share a store; expected postgresql://..., got {shown(store)!r}")

    from .store.postgres import require_extra

    require_extra()
    from .privacy import privacy_of
    from .worker.admin import AdminOptions
    from .worker.command import work_until_stopped
    from .worker.engine import EngineOptions

    options = EngineOptions(concurrency, stalled_after, shutdown_timeout)
    port = None if admin is None else AdminOptions(admin, admin_token)
    run_async(
        work_until_stopped(store, suite, options, privacy_of(redact, redact_key), port, allow_plugins=allow_plugins)
    )


def _agent_url(text: str, option: str = "--agent") -> str:
    try:
        return parse_url(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}, got {shown(text) if '@' in text else text!r}") from None


def _dialects(text: str) -> tuple[str, ...]:
    try:
        return parse_dialects(text)
    except ValueError as error:
        raise ConfigError(f"--dialects: {error}, got {text!r}") from None


def _headers(lines: tuple[str, ...]) -> dict[str, str]:
    try:
        return dict(parse_header_lines(lines)) if lines else {}
    except ValueError as error:
        raise ConfigError(f"--header: {error}") from None


@cli.command()
@stored_option
@run_option(help="Only this run.")
@click.option(
    "--format", "form", type=click.Choice(["jsonl"]), default="jsonl", show_default=True, help="How to write them."
)
def export(store: str, run_name: str | None, form: str) -> None:
    """Write stored turns to standard output, one JSON object a line.

    Each is as in /api/turns of the admin API; the oldest come first.

    \b
    Example: a2a-eval-proxy export --run monday > turns.jsonl
    """
    from .export import write_turns

    run_async(write_turns(store, run_name, sys.stdout))


@cli.command()
@stored_option
@click.argument("run_a", metavar="RUN_A")
@click.argument("run_b", metavar="RUN_B")
@click.option("--fail-on-regression", is_flag=True, help="Exit with 1 where RUN_B got worse.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="How to say it.",
)
def compare(store: str, run_a: str, run_b: str, fail_on_regression: bool, form: str) -> None:
    """Show what changed from RUN_A to RUN_B, case by case.

    Shows tool calls, scores, newly failing and fixed cases. RUN_B got worse where a case is gone, or where the pass
    rate or a metric fell by more than chance explains, over all cases or over the repetitions of one. An unchanged
    agent is called worse in at most 5 % of comparisons; how large a fall would have been seen is shown too.

    Metrics that the runs did not measure alike (another judge model, prompt, evaluator version or threshold) are named
    and not judged. With --fail-on-regression the exit code is 2 where no metric is left to judge.

    \b
    Example: a2a-eval-proxy compare monday tuesday --fail-on-regression
    """
    from .compare import compare_runs, show

    comparison = run_async(compare_runs(store, run_a, run_b))
    show(comparison, form)
    if fail_on_regression and not (comparison.regressed or comparison.comparable):
        raise click.UsageError(f"{run_a} and {run_b} cannot be compared: no metric is left that both measured alike")
    sys.exit(GATE_FAILED if fail_on_regression and comparison.regressed else PASSED)


@cli.command()
@stored_option
@run_option(help="Only this run.")
@click.option(
    "--out", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Default: standard output."
)
def record(store: str, run_name: str | None, out: Path | None) -> None:
    """Write a suite that expects the tool calls an agent made.

    Each conversation becomes a case. Conversations of the same case, or of no case, in which the user said the same
    become one: what changed between them becomes a placeholder, as does what looks generated (UUIDs, times, tokens).
    Conversations that went wrong, or whose tool calls could not be seen, are left out.

    \b
    Example: a2a-eval-proxy record --run monday --out suite.yaml
    """
    from .ownfiles import write_out
    from .record import record_run

    if out is not None and out.exists():
        raise click.UsageError(f"--out: {out} is there already, and may have been edited; give another name")
    recording = run_async(record_run(store, run_name))
    if out is None:
        click.echo(recording.text, nl=False)
    else:
        write_out(out, recording.text)
    told = f"recorded {recording.cases} case{'s' if recording.cases > 1 else ''}"
    click.echo("\n".join([*recording.left_out, told + (f" to {out}" if out else "")]), err=True)


@cli.command()
@click.argument("url", metavar="URL")
@click.option(
    "--message",
    "messages",
    multiple=True,
    metavar="TEXT",
    help="Say this to the agent: something that makes it call a tool. Repeatable. Default: an example of its card.",
)
@header_option
@agent_tls_options
@click.option(
    "--timeout",
    default=120.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Longest time of one answer.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "junit"]),
    default="text",
    show_default=True,
    help="How to say it.",
)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the report there instead of to standard output.",
)
def check(
    url: str,
    messages: tuple[str, ...],
    headers: tuple[str, ...],
    tls: ssl.SSLContext | None,
    timeout: float,
    form: str,
    out: Path | None,
) -> None:
    """Check that an agent implements the extension correctly.

    Sends messages to the agent at URL, over every JSON-RPC and HTTP+JSON interface of its card, asking for tool calls
    and not asking, and tells what is wrong, with the evidence and a fix. The agent's tools run for real.

    \b
    Exit codes: 0 conforming, 1 not conforming or no tool call seen, 2 bad usage, 3 agent unreachable.
    """
    from .check.command import check_and_show

    agent = _agent_url(url, "URL")
    conforms = run_async(check_and_show(agent, messages, _headers(headers), tls, timeout, form, out))
    sys.exit(PASSED if conforms else GATE_FAILED)


@cli.command()
@click.option("--keep", is_flag=True, help="Leave agent and proxy running afterwards, to try things by hand.")
def demo(keep: bool) -> None:
    """Show it all in one process, with a sample agent."""
    from .demo.story import tell

    sys.exit(run_async(tell(keep)))


T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run on uvloop where there is one (not on Windows)."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


def main() -> None:
    """Entry point: every expected failure is one sentence on stderr and an exit code."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
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
        _fail(str(error), BAD_INPUT)
    except Exception as error:
        code = _exit_code(error)
        if code is None:
            raise
        from tool_call_evaluators.report.wording import printable

        _fail(printable(str(error)), code)  # it may quote an agent


def _exit_code(error: Exception) -> int | None:
    """The exit code of an expected failure; None for a bug."""
    from tool_call_evaluators.suite import SuiteError

    from .errors import ListenError
    from .rayscoring import RayMissingError
    from .scoringthread import ScoringLostError
    from .store import StoreError, StoreUnreachableError
    from .traces.grpc_receiver import GrpcMissingError

    if isinstance(error, SuiteError | GrpcMissingError | RayMissingError | ConfigurationError):
        return BAD_INPUT
    if isinstance(error, ListenError | StoreUnreachableError | ScoringLostError | AgentUnreachable | AgentError):
        return UNREACHABLE
    if isinstance(error, StoreError):
        return BAD_INPUT
    if "a2a_tool_capture.client" in sys.modules:  # else nothing has run, and it is slow to import
        from .runner import NothingRanError

        if isinstance(error, NothingRanError):
            return UNREACHABLE
    return BAD_INPUT if isinstance(error, OSError) and error.filename else None


def _fail(message: str, code: int) -> None:
    from .logs import without_secrets

    click.echo(f"a2a-eval-proxy: {without_secrets(message)}", err=True)
    sys.exit(code)
