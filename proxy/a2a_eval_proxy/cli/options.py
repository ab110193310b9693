"""The options of every command but `serve`, whose options are `Settings`."""

from __future__ import annotations

import ssl
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from a2a_tool_capture.dialects import DIALECTS
from a2a_tool_capture.wire import BINDINGS

from ..doctor.frameworks import CAN_BE_NAMED
from ..errors import ConfigError
from ..settings import parsing as types
from ..settings.options import OptionGroup, Options, option
from ..settings.settings import (
    AuditOption,
    PluginOption,
    PrivacyOptions,
    RedactionOptions,
    RetentionOptions,
    StoreOption,
    TlsFilesOptions,
    TraceUrlOption,
)

if TYPE_CHECKING:
    from tool_call_evaluators.runs.comparison import FailOn
    from tool_call_evaluators.suite import AgentDefaults

    from ..runs.drive import AgentOptions
    from ..runs.rescore import Engine
    from ..runs.run_plan import Selection

_agent = partial(option, group=OptionGroup.AGENT)
_run = partial(option, group=OptionGroup.RUN)
_user = partial(option, group=OptionGroup.USER)
_tls = partial(option, group=OptionGroup.TLS)

_FAIL_ON = _run(
    types.some_of("CHANGE,...", ["regression", "newly-failing", "undecided"]),
    "Exit with 1 if the later run is worse, newly fails a case, or if there are not enough runs to decide.",
)
_output = partial(option, types.one_of("text", "json"), "Output format.", "text")
_new_file = partial(option, types.OUTPUT_FILE, "File to write; must not exist. Default: standard output.")
_suites = partial(option, types.SUITE_FILES, "Suite files or folders.", required=True, positional=True, repeatable=True)
_IMPORTED = ("arksim", "google-adk", "uipath", "dokimos")
_suite_format = partial(_run, types.one_of("suite", *_IMPORTED), "Suite file format; detected by default.")


class StoredRunOptions(StoreOption):
    """Which stored turns a command reads."""

    run: str | None = _run(types.NAME, "Only turns of this run.")


class StoredAgentOption(Options):
    """Of which of several agents stored turns are."""

    agent_name: str | None = _run(
        types.NAME, "Only turns of this one of several agents behind a proxy.", alias="--agent"
    )


class SelectionOptions(Options):
    """Which cases of a suite a command takes."""

    case: tuple[str, ...] = _run(
        replace(types.TEXTS, metavar="ID"),
        "Only this case, or cases whose ids match this shell pattern, such as 'refund-*'. Repeatable.",
        repeatable=True,
    )
    tag: tuple[str, ...] = _run(
        replace(types.TEXTS, metavar="TAG"),
        "Only cases with this tag. Repeatable.",
        repeatable=True,
    )

    @property
    def selection(self) -> Selection:
        """The cases that --case and --tag select."""
        from ..runs.run_plan import Selection

        return Selection(self.case, self.tag)


class ReportOptions(SelectionOptions):
    """How a suite is read, and where the report goes."""

    report: Path | None = option(
        types.OUTPUT_DIRECTORY,
        "Directory for report.html, junit.xml, report.json, summary.md, and focus/ (suites of the failed cases).",
        group=OptionGroup.RUN,
        alias="--output-dir",
    )
    scenario_file_path: str | None = _run(types.FILE, "Scenarios (JSON) instead of those of an ArkSim configuration.")
    format: str | None = _suite_format()
    no_judge_cache: bool = _run(types.FLAG, "Neither use nor store cached judge answers.")
    baseline: str | None = _run(
        types.NAME,
        "Run of the store to compare with, or version:NAME for the runs of an agent version: the report shows what "
        "changed.",
    )
    fail_on: tuple[FailOn, ...] = _FAIL_ON
    allow_no_capture: bool = _run(
        types.FLAG, "Accept an agent whose tool calls are not visible: what depends on them does not fail."
    )
    output: str = option(types.one_of("text", "json"), "Output format; json: the whole result as one document.", "text")
    quiet: bool = option(types.FLAG, "No progress, tables or notes: only the verdict and its reasons.", alias="-q")
    verbose: bool = option(types.FLAG, "Every turn and every reason, and more log messages.", alias="-v")


class AgentClientOptions(Options):
    """How a client connects to the agent."""

    header: tuple[tuple[str, str], ...] = _agent(
        types.HEADERS,
        "Header to send with every request. ${VARIABLE} and ${file:PATH} are expanded. Repeatable.",
        secret=True,
        references=True,
        repeatable=True,
    )
    agent_model: str | None = _agent(types.NAME, "Model of an openai: agent.")
    agent_system: str | None = _agent(types.TEXT, "System prompt of an openai: agent.")
    agent_tools: str | None = _agent(
        types.FILE, "Python file or module with the tools of an openai: agent. Default: calls are recorded, not run."
    )
    agent_ca: str | None = _tls(
        types.FILE, "Authorities (PEM) to trust for the agent's certificate, instead of the system's."
    )
    agent_cert: str | None = _tls(types.FILE, "Certificate chain (PEM) to present to the agent.")
    agent_key: str | None = _tls(types.FILE, "Private key (PEM) of --agent-cert.")
    agent_key_password: str | None = _tls(types.TEXT, "Password of --agent-key, if encrypted.", secret=True)

    def __post_init__(self) -> None:
        TlsFilesOptions(cert=self.agent_cert, key=self.agent_key).check("agent_")

    def tls(self) -> ssl.SSLContext | None:
        """TLS with the configured files; None: the system's default. Raises ConfigError."""
        if not self.agent_ca and not self.agent_cert:
            return None
        from ..net.tls import TlsFiles

        return TlsFiles.of(self, "agent_", prefix="agent_").client_context()


class DrivenAgentOptions(AgentClientOptions):
    """Which agent gets messages from a command, and how."""

    agent: str | None = _agent(
        types.AGENT,
        "URL of the agent, or of a proxy for it; python:FILE.py:CLASS; or openai:URL of a chat-completions API. "
        "Default: from the suite.",
    )
    binding: str | None = _agent(types.one_of(*BINDINGS), "Protocol binding. Default: the first in the agent card.")
    streaming: bool | None = _agent(types.SWITCH, "Use streaming. Default: if the agent card offers it.", None)
    dialects: tuple[str, ...] = _agent(
        types.DIALECT_NAMES, f"Also read framework-specific tool-call formats: {', '.join(DIALECTS)}."
    )
    timeout: float | None = _agent(types.SECONDS, "Maximum time of a turn. Default: from the suite, or 300.")

    def agent_defaults(self) -> AgentDefaults:
        """What takes precedence over the suite's `agent` block."""
        from tool_call_evaluators.suite import AgentDefaults

        return AgentDefaults(
            url=self.agent,
            headers=dict(self.header),
            binding=self.binding,
            streaming=self.streaming,
            timeout=self.timeout,
            model=self.agent_model,
            system=self.agent_system,
            tools=self.agent_tools,
        )

    def agent_options(self, suite: AgentDefaults | None = None, url: str | None = None) -> AgentOptions:
        """How the agent is reached; `suite`: its `agent` block; `url` replaces --agent. Raises ConfigError."""
        from tool_call_evaluators.suite import AgentDefaults

        from ..runs.drive import AgentOptions

        given = replace(self.agent_defaults(), url=url or self.agent)
        return AgentOptions.merged(suite or AgentDefaults(), given, self.dialects, self.tls())


_TRACE_WAIT_S = 16.0
"""Exporters send every 5 s, and one that met no receiver, since the command had not begun, tries a batch for 10 s."""


class ReceivedTracesOptions(Options):
    """Whether a command that drives an agent receives its traces."""

    otlp: str | None = _agent(
        types.ADDRESS, "Receive the agent's traces here (OTLP/HTTP), such as 127.0.0.1:4318, and merge them into turns."
    )
    trace_wait: float = _agent(
        types.SECONDS, "With --otlp: time to wait for the spans of a turn after its end.", _TRACE_WAIT_S
    )


class RunOptions(
    AuditOption,
    ReceivedTracesOptions,
    DrivenAgentOptions,
    PluginOption,
    ReportOptions,
    PrivacyOptions,
    StoreOption,
    TlsFilesOptions,
):
    suite: tuple[str, ...] = _suites()
    concurrency: int | None = _agent(
        types.UP_TO_1000, "Conversations to run concurrently. Default: from the suite, or 4."
    )
    run: str | None = _run(types.NAME, "Name of the run. Default: the suite's name and the current time.")
    fail_fast: bool = _run(types.FLAG, "Begin no conversation after one that failed.")
    resume: bool = _run(types.FLAG, "Resume the run named by --run; completed conversations are skipped.")
    repeat: int | None = _run(
        types.UP_TO_1000, "Attempts at each case, in place of the suite's `repeat`; shows which are flaky."
    )
    repeat_all: bool = _run(types.FLAG, "Make all attempts, also after `repeat: {pass: ...}` of the suite is decided.")
    replay_user: str | None = _user(types.NAME, "Repeat what the simulated users of this run wrote; no model is asked.")
    seed: int | None = _run(
        types.WHOLE_NUMBER, "Seed of the run: each attempt sends one of its own to the agent and the simulated user."
    )
    agent_version: str | None = _run(
        types.NAME, "Version of the agent, for --baseline version:NAME. Default: that of its card."
    )
    agent_name: str | None = _run(
        types.NAME, "Which of several agents of a proxy it is: its turns are among those of that agent."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resume and self.run is None:
            raise ConfigError("--resume: requires the name of the run to resume, --run NAME")

    def agent_defaults(self) -> AgentDefaults:
        """What takes precedence over the suite's `agent` block."""
        return replace(super().agent_defaults(), concurrency=self.concurrency)


class SendOptions(DrivenAgentOptions):
    text: str = option(types.TEXT, "The message.", required=True, positional=True)
    agent: str = _agent(types.AGENT, "URL of the agent, or as for `run`.", required=True)
    conversation: str | None = option(types.NAME, "Id of the conversation (contextId) to continue.")
    task: str | None = option(types.NAME, "Id of the task that waits for this message.")
    file: tuple[str, ...] = option(
        replace(types.SUITE_FILES, metavar="FILE"), "File to send with the message. Repeatable.", repeatable=True
    )
    output: str = _output()


class InitOptions(ReceivedTracesOptions, DrivenAgentOptions):
    dir: Path = option(types.OUTPUT_DIRECTORY, "Directory for the files; created if it does not exist.", Path())
    message: str | None = option(types.TEXT, "Message to send. Default: the first example in the agent card.")


class DoctorOptions(ReceivedTracesOptions, DrivenAgentOptions):
    agent: str = option(types.AGENT, "URL of the agent.", required=True, positional=True)
    message: str | None = option(types.TEXT, "Message that makes the agent call a tool. Default: as for `init`.")
    framework: str | None = option(
        types.one_of(*(framework.page for framework in CAN_BE_NAMED)), "The agent's framework. Default: as recognised."
    )
    otlp: str | None = _agent(types.ADDRESS, "Where to receive the agent's traces (OTLP/HTTP).", "127.0.0.1:4318")


class ValidateOptions(DrivenAgentOptions, PluginOption):
    suite: tuple[str, ...] = _suites()
    format: str | None = _suite_format()


class EvaluateOptions(AuditOption, TraceUrlOption, PluginOption, ReportOptions, RedactionOptions, StoredRunOptions):
    suite: tuple[str, ...] = _run(
        replace(types.TEXTS, metavar="FILE"),
        "Suite file with cases and evaluators, or a folder of them. Repeatable.",
        required=True,
        repeatable=True,
    )
    simulation_file_path: str | None = _run(
        types.FILE,
        "Conversations (ArkSim's simulation.json) to store as a new run and score. Default: as in the configuration.",
    )
    engine: Engine = option(
        types.one_of("in-process", "ray"),
        "Where evaluators run: in this process, or on Ray (a cluster, or all local cores), for slow evaluators.",
        "in-process",
        group=OptionGroup.RUN,
    )


class ExportOptions(StoredAgentOption, StoredRunOptions):
    format: str = option(types.one_of("jsonl"), "Output format.", "jsonl")


class EvaluatorsOptions(Options):
    name: str | None = option(
        replace(types.NAME, metavar="[NAME]"), "Name of the evaluator to explain.", positional=True
    )


class SchemaOptions(Options):
    pass


class ConvertOptions(PluginOption):
    file: str = option(types.FILE, "File of ArkSim, google-adk, UiPath or Dokimos.", required=True, positional=True)
    format: str | None = option(types.one_of(*_IMPORTED), "Format of FILE; detected by default.")
    out: Path | None = _new_file()


class RunsOptions(StoredAgentOption, StoreOption):
    output: str = _output()


class PruneOptions(StoredAgentOption, AuditOption, StoreOption, RetentionOptions):
    dry_run: bool = option(types.FLAG, "Only say what would be deleted.")

    def __post_init__(self) -> None:
        if self.retain_days is None and self.retain_mb is None:
            raise ConfigError("prune: which turns? Give --retain-days, --retain-mb or both")


class ShowOptions(StoredAgentOption, StoreOption):
    name: str = option(
        replace(types.NAME, metavar="RUN|TURN"), "Name of a run, or id of a turn.", required=True, positional=True
    )
    output: str = _output()


class UiOptions(AuditOption, TraceUrlOption, PluginOption, StoreOption):
    suite: str | None = _run(types.FILE, "Suite file or folder whose cases are shown, and whose gates judge runs.")
    port: int = option(types.PORT, "Port to listen on, on this machine only; 0: any free one.", 8082)
    open: bool = option(types.FLAG, "Open the link in a browser.")


class CompareOptions(StoredAgentOption, StoreOption):
    run_a: str = option(
        replace(types.NAME, metavar="RUN_A"),
        "The earlier run, or version:NAME for all of an agent version.",
        required=True,
        positional=True,
    )
    run_b: str = option(replace(types.NAME, metavar="RUN_B"), "The later run.", required=True, positional=True)
    fail_on_regression: bool = option(types.FLAG, "Exit with 1 if RUN_B is worse: the same as --fail-on regression.")
    fail_on: tuple[FailOn, ...] = _FAIL_ON
    margin: float = option(types.SHARE, "Pass rates that differ by less than this share are equivalent.", 0.05)
    detect: float | None = option(types.SHARE, "Say how many attempts show a drop of the pass rate by this: 10%, 0.1.")

    @property
    def conditions(self) -> tuple[FailOn, ...]:
        """On what the exit code is 1."""
        return (*self.fail_on, "regression") if self.fail_on_regression else self.fail_on

    format: str = option(types.one_of("text", "json", "markdown", "html"), "Output format.", "text")
    report: Path | None = option(types.OUTPUT_DIRECTORY, "Directory for comparison.html.")


class CalibrateOptions(AuditOption, PluginOption, RedactionOptions, StoredRunOptions):
    suite: str = option(types.FILE, "Suite file or folder with the judges.", required=True, positional=True)
    evaluator: str | None = _run(types.NAME, "Only the judge of these results. Default: every one with labels.")
    labels: str | None = _run(
        types.FILE,
        "CSV or JSON Lines with turn_id or conversation_id, label, evaluator, who, by. Default: the annotations in the"
        " store.",
    )
    output: str = _output()


class AcceptOptions(AuditOption, SelectionOptions, PluginOption, StoreOption):
    suite: str = option(types.FILE, "Suite file to change.", required=True, positional=True)
    run: str | None = _run(types.NAME, "Run that shows the new behaviour. Default: the newest.")
    yes: bool = option(types.FLAG, "Accept every change without asking.")
    dry_run: bool = option(types.FLAG, "Only show the changes.")
    undo: bool = option(types.FLAG, "Take back the last accepted changes of this file.")


class McpOptions(AuditOption, PluginOption, StoreOption):
    suite: str | None = option(types.FILE, "Suite file with the cases to run, and what they expect.")
    agent: str | None = option(types.AGENT, "URL of the agent, or as for `run`. Default: from the suite.")
    allow_accept: bool = option(types.FLAG, "Allow the coding agent to change what the suite expects.")


class RecordOptions(AuditOption, StoredRunOptions):
    suite: str | None = option(types.FILE, "Suite to keep, except for the calls that it expects.")
    out: Path | None = _new_file()


class CheckOptions(AgentClientOptions):
    url: str = option(types.AGENT, "URL of the agent.", required=True, positional=True)
    message: tuple[str, ...] = option(
        types.TEXTS,
        "Message that makes the agent call a tool. Repeatable. Default: an example from the agent card.",
        repeatable=True,
    )
    timeout: float = option(types.SECONDS, "Maximum time of a response.", 120.0)
    format: str = option(types.one_of("text", "json", "junit"), "Output format.", "text")
    out: Path | None = option(types.OUTPUT_FILE, "File to write the report to. Default: standard output.")


class DemoOptions(Options):
    keep: bool = option(types.FLAG, "Leave the agent and the proxy running at the end.")
