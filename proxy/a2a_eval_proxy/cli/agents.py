"""Commands that talk to an agent: `check`, `init`, `doctor` and `send`."""

from __future__ import annotations

import asyncio
import io
import json
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import ListenError
from .command import command, run_async
from .options import CheckOptions, DoctorOptions, InitOptions, ReceivedTracesOptions, SendOptions
from .output import JsonOutput, echo_document, echo_json

if TYPE_CHECKING:
    from a2a_tool_capture import TaskMerger

    from ..check import CheckReport
    from ..doctor.diagnosis import Diagnosis
    from ..otlp.trace_service import Tracing
    from ..runs.drive import AgentOptions
    from ..runs.init import FirstSuite

_HEADERS_TIMEOUT_S = 5.0
_WIDTH = 120  # characters in a line of a report that is written to a file


@command(CheckOptions)
def check(options: CheckOptions) -> bool:
    """Check that an agent implements the extension correctly.

    Sends messages to the agent at URL over every interface of its card, with and without a request for tool calls.
    grpc://HOST:PORT is an agent that has only gRPC. Reports what is wrong, with the evidence and a fix. The agent's
    tools really run.

    \b
    Exit codes: 0 conforming, 1 not conforming or no tool call seen, 2 bad usage, 3 agent unreachable or failing.
    """
    return run_async(_check(options))


async def _check(options: CheckOptions) -> bool:
    from rich.console import Console
    from tool_call_evaluators.suite import AgentDefaults

    from ..check import CheckVerdict, ProbeClient, as_markup, check_agent, failure_of
    from ..connectors.server import connected

    url, headers, tls = options.url, dict(options.header), options.tls()
    chat = AgentDefaults(model=options.agent_model, system=options.agent_system, tools=options.agent_tools)
    with Console(stderr=True).status("") as status, redirect_stdout(sys.stderr):  # a Python agent may print

        def progress(step: str) -> None:
            status.update(as_markup(step))

        async with (
            connected(url, chat, headers, tls, options.timeout) as server,
            ProbeClient(
                {} if server else headers, options.timeout, None if server else tls, trust_env=server is None
            ) as client,
        ):
            report = await check_agent(client, server.url if server else url, options.message, progress)
    failure = failure_of(report)
    if failure is None or options.format != "text":
        await _write(options, report)
    if failure is not None:
        raise failure
    return report.verdict is CheckVerdict.CONFORMING


async def _write(options: CheckOptions, report: CheckReport) -> None:
    from rich.console import Console

    from ..check import print_report, report_json, report_junit
    from ..runs.files import write_out

    console = Console(highlight=False)
    if options.format == "text" and options.out is None and console.is_terminal:
        print_report(report, options.url, console)
        return
    if options.format == "text":
        printed = io.StringIO()
        print_report(
            report, options.url, Console(highlight=False, file=printed, width=_WIDTH if options.out else console.width)
        )
        text = "".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines())
    elif options.format == "json":
        text = json.dumps(report_json(report, options.url), indent=2, ensure_ascii=False) + "\n"
    else:
        text = report_junit(report, options.url)
    if options.out is not None:
        await asyncio.to_thread(write_out, options.out, text)
    elif options.format == "text":
        sys.stdout.write(text)
    else:
        (JsonOutput().write if options.format == "json" else echo_document)(text)


@command(InitOptions)
def init(options: InitOptions) -> None:
    """Write a first suite for an agent.

    Reads the agent's card, sends it one message, and records what it does: suite.yaml with a case that passes,
    a2a-eval-proxy.yaml with settings, and a job for GitHub Actions. Existing files are kept.

    \b
    Example: a2a-eval-proxy init --agent localhost:9999
    """
    from tool_call_evaluators.texts import printable

    from ..privacy.policy import NO_PRIVACY
    from ..runs.files import write_out
    from ..runs.init import CI, CONFIG, SUITE, files
    from ..runs.run_plan import PAGE
    from ..telemetry.logs import start_logging

    start_logging("error", "%(levelname)s %(name)s: %(message)s", NO_PRIVACY)  # `unseen` says what a warning would
    folder = options.dir
    if (folder / SUITE).exists():
        raise click.UsageError(f"{folder / SUITE} already exists; choose another directory with --dir")
    url = options.agent
    if url is None and sys.stdin.isatty():
        url = click.prompt("URL of the agent", value_proc=_agent_url, err=True)
    if url is None:
        raise click.UsageError("--agent is required: give --agent URL, or set A2A_EVAL_PROXY_AGENT")
    agent = options.agent_options(url=url)
    suite = run_async(_first_suite(options, agent))
    click.echo(printable(suite.summary))
    top = _repository_of(folder)
    below = folder.resolve().relative_to(top.resolve()).as_posix().removeprefix(".")
    for name, text in files(suite, agent.url, options.otlp, below).items():
        path = (top if name == CI else folder) / name
        if path.exists():
            click.echo(f"kept {path}: it already exists")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write_out(path, text)
        click.echo(f"wrote {path}")
    if suite.unseen:
        how = f"`a2a-eval-proxy doctor {agent.url}` says which lines show them; the suite scores the response alone"
        click.echo(f"warning: no tool calls can be seen: {suite.unseen}. {how}", err=True)
    where = Path(SUITE) if folder == Path() else folder / SUITE
    command = shlex.join(["a2a-eval-proxy", "run", str(where), "--config", str(folder / CONFIG)])
    click.echo(f"\nnext: {command}\nthen open {Path('report', PAGE)}")


def _repository_of(folder: Path) -> Path:
    """The repository with this folder: a forge looks for jobs at its top alone. Without one, the folder."""
    whole = folder.resolve()
    top = next((parent for parent in (whole, *whole.parents) if (parent / ".git").exists()), whole)
    return folder if top == whole else top


async def _first_suite(options: InitOptions, agent: AgentOptions) -> FirstSuite:
    from ..runs.init import first_suite

    async with receiving(options) as tracing:
        return await first_suite(agent, options.message, tracing)


def _agent_url(text: str) -> str:
    """The URL as typed; a wrong one is asked for again."""
    from ..settings.parsing import parse_agent

    try:
        return parse_agent(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@command(DoctorOptions)
def doctor(options: DoctorOptions) -> bool:
    """Say what is seen of an agent's tool calls, and what to add.

    Sends one message to the agent at URL, and waits for traces that it sends to --otlp. Names the way by which calls
    are seen, the framework, and the lines that show the rest. The agent's tools really run. Add the lines, restart the
    agent, and run it again.

    \b
    Exit codes: 0 all calls are seen, 1 not all, 2 bad usage, 3 agent unreachable.
    Example: a2a-eval-proxy doctor localhost:9999
    """
    diagnosis = run_async(_diagnose(options))
    for line in diagnosis.lines:
        click.echo(line)
    return diagnosis.all_seen


async def _diagnose(options: DoctorOptions) -> Diagnosis:
    from ..doctor.diagnosis import diagnose
    from ..doctor.frameworks import CAN_BE_NAMED
    from ..runs.init import send_first

    agent = options.agent_options()
    named = next((one for one in CAN_BE_NAMED if one.page == options.framework), None)
    async with AsyncExitStack() as stack:
        try:
            tracing = await stack.enter_async_context(receiving(options))
        except ListenError as error:  # a `serve` may have it, and the extension may show all
            click.echo(f"warning: no traces are received: {error}", err=True)
            tracing = None
        first = await send_first(agent, options.message, tracing)
        (turn,) = first.turns
        scopes = [span.scope for span in tracing.spans(turn["turn_id"])] if tracing else []
    given = {"--message": options.message, "--framework": options.framework}
    again = "".join(f" {name} {shlex.quote(value)}" for name, value in given.items() if value)
    traces, headers = variables(f"http://{options.otlp}"), await _server_headers(agent)
    return diagnose(agent.url, first.card, first.text, turn, scopes, traces, named, headers, again)


async def _server_headers(agent: AgentOptions) -> dict[str, str]:
    """The headers of a response of the agent's server; {} without HTTP."""
    import httpx
    from a2a_tool_capture.environment_proxies import EnvironmentTransport

    try:
        async with httpx.AsyncClient(
            transport=EnvironmentTransport(agent.tls or True), timeout=_HEADERS_TIMEOUT_S
        ) as http:
            return dict((await http.get(f"{agent.url}/.well-known/agent-card.json")).headers)
    except (httpx.HTTPError, httpx.UnsupportedProtocol):
        return {}


@command(SendOptions)
def send(options: SendOptions) -> bool:
    """Send one message to an agent.

    Shows the agent's tool calls and its response as they come. The agent is asked for its tool calls. Nothing is stored
    or scored; to do both, send through `serve`, or use `run`. The exit code is 1 if the agent's task failed.

    \b
    Example: a2a-eval-proxy send "Where is order ORD-1001?" --agent localhost:9999
    """
    from a2a_tool_capture.wire import FAILED_STATES

    from ..runs.send import MessageTranscript, files_of, send_message, turn_json

    transcript, files = MessageTranscript(), files_of(options.file)
    out = sys.stdout
    as_text = options.output == "text"

    def show(text: str) -> None:
        out.write(text)
        out.flush()

    def observe(so_far: TaskMerger) -> None:
        if as_text:
            show(transcript.update(so_far.turn_tool_calls, so_far.response_text))

    with redirect_stdout(sys.stderr):  # a Python agent may print
        try:
            turn = run_async(
                send_message(
                    options.agent_options(),
                    options.text,
                    conversation_id=options.conversation,
                    task_id=options.task,
                    files=files,
                    observe=observe,
                )
            )
        except BaseException:
            show(transcript.line_end())  # the error has a line of its own
            raise
    if as_text:
        show(transcript.end(turn))
    else:
        echo_json(turn_json(turn))
    return turn.state not in FAILED_STATES


@asynccontextmanager
async def receiving(options: ReceivedTracesOptions, *, silent: bool = False) -> AsyncIterator[Tracing | None]:
    """Receive traces for the time of the block if --otlp says where, and say what the agent's environment needs."""
    if options.otlp is None:
        yield None
        return
    from ..otlp.receivers import tracing_at

    async with tracing_at(options.otlp, options.trace_wait) as (tracing, url):
        if url and not silent:
            click.echo(f"receiving traces; the agent needs {variables(url)}", err=True)
        yield tracing


def variables(url: str) -> str:
    """The environment of an agent that sends its traces to `url`."""
    return f"OTEL_EXPORTER_OTLP_ENDPOINT={url} OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
