"""The options of every command but `serve`, whose options are `Settings`."""

from __future__ import annotations

import ssl
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from a2a_tool_capture.dialect import known_dialects
from a2a_tool_capture.wire import BINDINGS

from ..errors import ConfigError
from ..settings import parsing as types
from ..settings.options import OptionGroup, Options, option
from ..settings.parts import (
    PluginOption,
    PrivacyOptions,
    RedactionOptions,
    StoreOption,
    TlsFilesOptions,
    TraceUrlOption,
)

if TYPE_CHECKING:
    from tool_call_evaluators.outcomes.comparison import FailOn
    from tool_call_evaluators.suite import AgentDefaults

    from ..runs.drive import AgentOptions
    from ..runs.run_plan import Selection

agent_option = partial(option, group=OptionGroup.AGENT)
run_option = partial(option, group=OptionGroup.RUN)
_user = partial(option, group=OptionGroup.USER)
_tls = partial(option, group=OptionGroup.TLS)

FAIL_ON = run_option(
    types.some_of("CHANGE,...", ["regression", "newly-failing", "undecided"]),
    "Exit with 1 if the later run is worse, newly fails a case, or if there are not enough runs to decide.",
)
output_option = partial(option, types.one_of("text", "json"), "Output format.", "text")
new_file_option = partial(option, types.OUTPUT_FILE, "File to write; must not exist. Default: standard output.")
suites_option = partial(
    option, types.SUITE_FILES, "Suite files or folders.", required=True, positional=True, repeatable=True
)
_EVALUATORS = find_spec("tool_call_evaluators")  # which is slow to import
_FOLDERS = (_EVALUATORS and _EVALUATORS.submodule_search_locations) or ()
IMPORTED = [tool.name.replace("_", "-") for tool in iter_modules([f"{folder}/importers" for folder in _FOLDERS])]
"""As `tool_call_evaluators.plugins.tool_names`."""
suite_format_option = partial(run_option, types.one_of("suite", *IMPORTED), "Suite file format; detected by default.")


class StoredRunOptions(StoreOption):
    """Which stored turns a command reads."""

    run: str | None = run_option(types.NAME, "Only turns of this run.")


class StoredAgentOption(Options):
    """Of which of several agents stored turns are."""

    agent_name: str | None = run_option(
        types.NAME, "Only turns of this one of several agents behind a proxy.", alias="--agent"
    )


class SelectionOptions(Options):
    """Which cases of a suite a command takes."""

    case: tuple[str, ...] = run_option(
        replace(types.TEXTS, metavar="ID"),
        "Only this case, or cases whose ids match this shell pattern, such as 'refund-*'. Repeatable.",
        repeatable=True,
    )
    tag: tuple[str, ...] = run_option(
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
    scenario_file_path: str | None = run_option(
        types.FILE, "Scenarios (JSON) instead of those of an ArkSim configuration."
    )
    format: str | None = suite_format_option()
    no_judge_cache: bool = run_option(types.FLAG, "Neither use nor store cached judge answers.")
    baseline: str | None = run_option(
        types.NAME,
        "Run of the store to compare with, or version:NAME for the runs of an agent version: the report shows what "
        "changed.",
    )
    fail_on: tuple[FailOn, ...] = FAIL_ON
    allow_no_capture: bool = run_option(
        types.FLAG, "Accept an agent whose tool calls are not visible: what depends on them does not fail."
    )
    output: str = option(types.one_of("text", "json"), "Output format; json: the whole result as one document.", "text")
    quiet: bool = option(types.FLAG, "No progress, tables or notes: only the verdict and its reasons.", alias="-q")
    verbose: bool = option(types.FLAG, "Every turn and every reason, and more log messages.", alias="-v")


class AgentClientOptions(Options):
    """How a client connects to the agent."""

    header: tuple[tuple[str, str], ...] = agent_option(
        types.HEADERS,
        "Header to send with every request. ${VARIABLE} and ${file:PATH} are expanded. Repeatable.",
        secret=True,
        references=True,
        repeatable=True,
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

    agent: str | None = agent_option(
        types.AGENT,
        "URL of the agent, or of a proxy for it; python:FILE.py:CLASS; or openai:URL of a chat-completions API. "
        "Default: from the suite.",
    )
    agent_model: str | None = agent_option(types.NAME, "Model of an openai: agent.")
    agent_system: str | None = agent_option(types.TEXT, "System prompt of an openai: agent.")
    binding: str | None = agent_option(
        types.one_of(*BINDINGS), "Protocol binding. Default: the first in the agent card."
    )
    streaming: bool | None = agent_option(types.SWITCH, "Use streaming. Default: if the agent card offers it.", None)
    dialects: tuple[str, ...] = agent_option(
        types.DIALECT_NAMES, f"Also read framework-specific tool-call formats: {', '.join(known_dialects())}."
    )
    timeout: float | None = agent_option(types.SECONDS, "Maximum time of a turn. Default: from the suite, or 300.")

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
        )

    def agent_options(self, suite: AgentDefaults | None = None) -> AgentOptions:
        """How the agent is reached; `suite`: its `agent` block. Raises ConfigError."""
        from tool_call_evaluators.suite import AgentDefaults

        from ..runs.drive import merged_options

        return merged_options(suite or AgentDefaults(), self.agent_defaults(), self.dialects, self.tls())


_TRACE_WAIT_S = 16.0
"""Exporters send every 5 s, and one that met no receiver, since the command had not begun, tries a batch for 10 s."""


class TraceWaitOption(Options):
    trace_wait: float = agent_option(
        types.SECONDS,
        "With --otlp or --traces: time to wait for the spans of a turn after its end.",
        _TRACE_WAIT_S,
    )


class FetchedTracesOptions(TraceWaitOption):
    """Where a command fetches the traces of turns from."""

    traces: str | None = agent_option(
        types.TEXT,
        "Fetch the trace of each turn from tempo://HOST:PORT, jaeger://HOST:PORT (with TLS: tempos:, jaegers:) or "
        "otlp-file:PATH, and merge it into the turn.",
    )
    traces_header: tuple[tuple[str, str], ...] = agent_option(
        types.HEADERS,
        "Header for --traces, such as 'Authorization: Bearer ${TOKEN}'. ${VARIABLE} and ${file:PATH} are expanded. "
        "Repeatable.",
        secret=True,
        references=True,
        repeatable=True,
    )


class ReceivedTracesOptions(TraceWaitOption):
    """Whether a command that drives an agent receives its traces."""

    otlp: str | None = agent_option(
        types.ADDRESS, "Receive the agent's traces here (OTLP/HTTP), such as 127.0.0.1:4318, and merge them into turns."
    )


class RunOptions(
    FetchedTracesOptions,
    ReceivedTracesOptions,
    DrivenAgentOptions,
    PluginOption,
    ReportOptions,
    PrivacyOptions,
    StoreOption,
    TlsFilesOptions,
):
    suite: tuple[str, ...] = suites_option()
    concurrency: int | None = agent_option(
        types.UP_TO_1000, "Conversations to run concurrently. Default: from the suite, or 4."
    )
    run: str | None = run_option(types.NAME, "Name of the run. Default: the suite's name and the current time.")
    fail_fast: bool = run_option(types.FLAG, "Begin no conversation after one that failed.")
    resume: bool = run_option(types.FLAG, "Resume the run named by --run; completed conversations are skipped.")
    repeat: int | None = run_option(
        types.UP_TO_1000, "Attempts at each case, in place of the suite's `repeat`; shows which are flaky."
    )
    repeat_all: bool = run_option(
        types.FLAG, "Make all attempts, also after `repeat: {pass: ...}` of the suite is decided."
    )
    replay_user: str | None = _user(types.NAME, "Repeat what the simulated users of this run wrote; no model is asked.")
    seed: int | None = run_option(
        types.WHOLE_NUMBER, "Seed of the run: each attempt sends one of its own to the agent and the simulated user."
    )
    agent_version: str | None = run_option(
        types.NAME, "Version of the agent, for --baseline version:NAME. Default: that of its card."
    )
    agent_name: str | None = run_option(
        types.NAME, "Which of several agents of a proxy it is: its turns are among those of that agent."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resume and self.run is None:
            raise ConfigError("--resume: requires the name of the run to resume, --run NAME")
        if self.traces and self.otlp:
            raise ConfigError("--traces: fetches the traces that --otlp receives; leave out one of the two")

    def agent_defaults(self) -> AgentDefaults:
        """What takes precedence over the suite's `agent` block."""
        return replace(super().agent_defaults(), concurrency=self.concurrency)


class EvaluateOptions(
    FetchedTracesOptions, TraceUrlOption, PluginOption, ReportOptions, RedactionOptions, StoredRunOptions
):
    suite: tuple[str, ...] = run_option(
        replace(types.TEXTS, metavar="FILE"),
        "Suite file with cases and evaluators, or a folder of them. Repeatable.",
        required=True,
        repeatable=True,
    )
    simulation_file_path: str | None = run_option(
        types.FILE,
        "Conversations (ArkSim's simulation.json) to store as a new run and score. Default: as in the configuration.",
    )
    engine: str = option(
        types.NAME,
        "Where evaluators run: in this process, or on ray (a cluster, or all local cores), for slow evaluators.",
        "in-process",
        group=OptionGroup.RUN,
    )
