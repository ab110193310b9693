"""Flags, the environment and a file, in that order of precedence, alike for every command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from a2a_eval_proxy.cli import cli
from a2a_eval_proxy.config import SETTINGS
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.flags import Command
from click.testing import CliRunner


@click.command(cls=Command)
@click.option("--report-to", "target", required=True)
@click.option("--header", "headers", multiple=True)
@click.option("--fast/--no-fast", default=None)
@click.option("--count", type=int, default=1)
def probe(**values: Any) -> dict[str, Any]:
    return values


def run(*arguments: str) -> dict[str, Any]:
    result: dict[str, Any] = probe.main(list(arguments), standalone_mode=False)
    return result


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "config.yaml"
    path.write_text(
        "report-to: file\nheader: ['A-B: c d', 'E: f']\nfast: false\ncount: 3\nupstream: http://for.serve\n"
    )
    return str(path)


def test_flags_win_then_the_environment_then_the_file(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("--config", file) == {"target": "file", "headers": ("A-B: c d", "E: f"), "fast": False, "count": 3}
    monkeypatch.setenv("A2A_EVAL_PROXY_CONFIG", file)
    monkeypatch.setenv("A2A_EVAL_PROXY_REPORT_TO", "environment")
    monkeypatch.setenv("A2A_EVAL_PROXY_FAST", "true")
    monkeypatch.setenv("A2A_EVAL_PROXY_HEADER", "Authorization: Bearer x\nX-Other: y z")
    assert run("--count", "4") == {
        "target": "environment",
        "headers": ("Authorization: Bearer x", "X-Other: y z"),
        "fast": True,
        "count": 4,
    }
    assert run("--report-to", "flag")["target"] == "flag"


def test_one_header_in_a_file_needs_no_list(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("report_to: x\nheader: 'A: b'\n")
    assert run("--config", str(path))["headers"] == ("A: b",)


def test_mistakes_say_where_they_are(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_EVAL_PROXY_COUNT", "many")
    with pytest.raises(click.BadParameter, match="'many' is not a valid integer") as caught:
        run("--config", file)
    assert "Invalid value for A2A_EVAL_PROXY_COUNT:" in caught.value.format_message()
    monkeypatch.delenv("A2A_EVAL_PROXY_COUNT")
    path = tmp_path / "wrong.yaml"
    path.write_text("report_too: x\n")
    with pytest.raises(ConfigError, match=r"wrong.yaml: unknown setting 'report_too' \(did you mean report_to\?\)$"):
        run("--config", str(path))
    path.write_text("colour: x\n")
    with pytest.raises(ConfigError, match=r"wrong.yaml: unknown setting 'colour'; known are .*report_to, "):
        run("--config", str(path))
    path.write_text("report_to: x\ncount: many\n")
    with pytest.raises(click.BadParameter, match="'many' is not a valid integer") as caught:
        run("--config", str(path))
    assert "Invalid value for count in the config file:" in caught.value.format_message()
    path.write_text("report_to: x\nheader: [A-B: c d]\n")
    with pytest.raises(ConfigError, match=r"wrong\.yaml: header: expected a text or a list of texts"):
        run("--config", str(path))
    path.write_text("report_to: {x: y}\n")
    with pytest.raises(ConfigError, match=r"wrong\.yaml: report_to: expected one value"):
        run("--config", str(path))
    with pytest.raises(ConfigError, match="cannot read"):
        run("--config", str(tmp_path / "none.yaml"))


def test_every_command_has_them() -> None:
    for name, command in cli.commands.items():
        assert "--config" in {flag for option in command.params for flag in option.opts}, name
        if name != "serve":
            options = [option for option in command.params if isinstance(option, click.Option)]
            assert all(str(option.envvar).startswith("A2A_EVAL_PROXY_") for option in options), name
    assert {"store", "run", "suite"} <= set(SETTINGS)


def test_the_list_of_commands_is_not_cut() -> None:
    shown = CliRunner().invoke(cli, ["--help"], terminal_width=80).output
    assert set(cli.commands) <= set(shown.split())
    assert not any(line.endswith("...") for line in shown.partition("Commands:")[2].splitlines())


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_every_option_says_what_it_is_for(command: str) -> None:
    for option in cli.commands[command].params:
        if isinstance(option, click.Option):
            assert option.help, f"{command} {option.opts[0]}"
