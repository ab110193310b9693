"""Flags, the environment and a file, in that order of precedence, in the same way for every command."""

from __future__ import annotations

from pathlib import Path

import pytest
from a2a_eval_proxy.cli.command import command
from a2a_eval_proxy.cli.group import cli
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.settings import parsing as types
from a2a_eval_proxy.settings.options import Options, option
from click.testing import CliRunner


class ProbeOptions(Options):
    suite: str = option(types.ValueType(types.parse_text, "SUITE"), "The suite.", required=True, positional=True)
    report_to: str = option(types.TEXT, "Where to report.", required=True)
    header: tuple[tuple[str, str], ...] = option(types.HEADERS, "A header.", repeatable=True, secret=True)
    fast: bool | None = option(types.SWITCH, "Whether to be fast.", None)
    once: bool = option(types.FLAG, "Run once.")
    count: int = option(types.COUNT, "How many.", 1)
    mode: str = option(types.one_of("shallow", "thorough"), "How.", "shallow")
    address: str | None = option(types.ADDRESS_OR_OFF, "Where.", "127.0.0.1:1", no_flag="Nowhere.")


seen: list[ProbeOptions] = []


@command(ProbeOptions)
def probe(options: ProbeOptions) -> bool:
    """Probe."""
    seen.append(options)
    return not options.once


def run(*arguments: str) -> ProbeOptions:
    probe.main(["a.yaml", *arguments], standalone_mode=False)
    return seen[-1]


def problem(*arguments: str) -> str:
    with pytest.raises(ConfigError) as raised:
        run(*arguments)
    return str(raised.value)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "config.yaml"
    path.write_text("report-to: file\nheader: ['A-B: c d', 'E: f']\nfast: false\ncount: 3\n")
    return str(path)


def test_flags_win_then_the_environment_then_the_file(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("--config", file) == ProbeOptions(
        suite="a.yaml", report_to="file", header=(("A-B", "c d"), ("E", "f")), fast=False, count=3
    )
    monkeypatch.setenv("A2A_EVAL_PROXY_CONFIG", file)
    monkeypatch.setenv("A2A_EVAL_PROXY_REPORT_TO", "environment")
    monkeypatch.setenv("A2A_EVAL_PROXY_FAST", "true")
    monkeypatch.setenv("A2A_EVAL_PROXY_HEADER", "Authorization: Bearer x\nX-Other: y z")
    assert run("--count", "4") == ProbeOptions(
        suite="a.yaml",
        report_to="environment",
        header=(("Authorization", "Bearer x"), ("X-Other", "y z")),
        fast=True,
        count=4,
    )
    assert run("--report-to", "flag", "--no-fast", "--header", "A:b", "--header", "C:d") == ProbeOptions(
        suite="a.yaml", report_to="flag", header=(("A", "b"), ("C", "d")), fast=False, count=3
    )


@pytest.mark.parametrize(
    ("flags", "variable", "address"),
    [
        ([], "", "127.0.0.1:1"),
        (["--no-address"], "", None),
        (["--address", "off"], "", None),
        ([], "127.0.0.1:2", "127.0.0.1:2"),
        (["--no-address"], "127.0.0.1:2", None),
    ],
)
def test_an_option_that_can_be_off(
    flags: list[str], variable: str, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable:
        monkeypatch.setenv("A2A_EVAL_PROXY_ADDRESS", variable)
    assert run("--report-to", "x", *flags).address == address


@pytest.mark.parametrize("header", ["'A: b'", "{A: b}"])
def test_one_header_in_a_file_needs_no_list(header: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"report_to: x\nheader: {header}\n")
    assert run("--config", str(path)).header == (("A", "b"),)


def test_a_file_that_lies_where_a_command_runs_is_read_unless_another_is_named(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a2a-eval-proxy.yaml").write_text("report_to: beside\n")
    assert run().report_to == "beside"
    assert run("--config", file).report_to == "file"
    monkeypatch.setenv("A2A_EVAL_PROXY_CONFIG", file)
    assert run().report_to == "file"


def test_the_exit_code_is_1_where_the_function_returns_false() -> None:
    runner = CliRunner()
    assert runner.invoke(probe, ["a.yaml", "--report-to", "x"]).exit_code == 0
    assert runner.invoke(probe, ["a.yaml", "--report-to", "x", "--once"]).exit_code == 1


def test_mistakes_name_the_flag_the_variable_or_the_line(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert problem("--config", file, "--count", "many") == "--count: expected a positive whole number, got 'many'"
    monkeypatch.setenv("A2A_EVAL_PROXY_REPORT_TO", "")  # a value: a report in the current directory would be a surprise
    assert problem() == "A2A_EVAL_PROXY_REPORT_TO: expected a non-empty string, got ''"
    monkeypatch.delenv("A2A_EVAL_PROXY_REPORT_TO")
    path = tmp_path / "wrong.yaml"
    for text, expected in [
        ("report_too: x\n", ":1: unknown setting 'report_too' (did you mean report_to?); known are address, count"),
        ("\ncolour: x\n", ":2: unknown setting 'colour'; known are address, count"),
        ("report_to: x\ncount: many\n", ":2: count: expected a positive whole number, got 'many'"),
        ("report_to: x\n# a comment\nheader: [s3cret]\n", ":3: header: expected NAME:VALUE, such as"),
        ("report_to: {x: y}\n", ":1: report_to: expected a non-empty string, got {'x': 'y'}"),
        (
            "report-to: x\nmode: thoroug\n",
            ":2: mode: expected one of shallow, thorough, got 'thoroug' (did you mean thorough?)",
        ),
        ("base: &b {report_to: 3}\n<<: *b\n", ":1: unknown setting 'base'"),
        ("<<: {report_to: 3}\n", ":1: unknown setting '<<'; known are address, count"),
    ]:
        path.write_text(text)
        message = problem("--config", str(path))
        assert (message.startswith(str(path) + expected), "s3cret" in message) == (True, False), message
    assert "cannot read" in problem("--config", str(tmp_path / "none.yaml"))


@pytest.mark.parametrize(("name", "required"), [("serve", "upstream"), ("evaluate", "suite"), ("worker", "store")])
def test_what_is_missing_can_be_given_in_three_ways(name: str, required: str) -> None:
    with pytest.raises(ConfigError, match=f"--{required} [A-Z]+, set A2A_EVAL_PROXY_{required.upper()}, or .* config"):
        cli.main([name], standalone_mode=False)


class SecretOptions(Options):
    token: str | None = option(types.TOKEN, "A token.", secret=True, references=True)
    password: str | None = option(types.TEXT, "A password.", secret=True)
    header: tuple[tuple[str, str], ...] = option(types.HEADERS, "A header.", repeatable=True, secret=True)


@command(SecretOptions)
def secretive(options: SecretOptions) -> None:
    """Probe."""


def test_secrets_on_the_command_line_are_warned_about(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0123456789abcdef\n")
    by_file = f"${{file:{tmp_path / 'token'}}}"
    harmless = ["--token", by_file, "--header", "X-Tenant: a"]
    environment = {"A2A_EVAL_PROXY_TOKEN": "0123456789abcdef", "A2A_EVAL_PROXY_PASSWORD": "s3cret"}
    done = CliRunner().invoke(secretive, harmless, env=environment)
    assert (done.exit_code, [line for line in done.output.splitlines() if "(ps)" in line]) == (0, [])
    done = CliRunner().invoke(secretive, ["--token", "0123456789abcdef", "--password", "s3cret"])
    told = "other users of this machine can read it in the list of processes (ps); set the variable A2A_EVAL_PROXY_"
    assert done.output.splitlines() == [
        f"warning: --token: {told}TOKEN, or give '--token ${{file:PATH}}'",
        f"warning: --password: {told}PASSWORD",
    ]
