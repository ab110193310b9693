"""Collects what the site of the documentation is built from, in `artifacts/pages`: `make docs`.

The pages of the components keep their paths, so that the links between them lead somewhere. A reference of what only
the code knows is added: the commands, the evaluators, and the public names of the packages.
"""

from __future__ import annotations

import importlib
import shutil
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
from a2a_eval_proxy.cli.command import Command
from a2a_eval_proxy.cli.group import cli
from a2a_eval_proxy.features.check.rules import CARD_RULES, TRAFFIC_RULES
from a2a_eval_proxy.features.pages.rendering import MEANINGS
from a2a_eval_proxy.settings.options import OptionGroup, options_of

from . import evaluator_lists
from .public_api import PUBLIC_MODULES

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "artifacts/pages"
WRITTEN = (
    "*.md",
    "{component}/README.md",
    "{component}/docs/**/*.md",
    "{component}/docs/pictures/*",
    "{component}/pictures/*",
    "{component}/examples/*",
    "proxy/a2a_eval_proxy/features/pages/findings.toml",
)
COMPONENTS = ("deploy", "evaluators", "extension", "proxy")


def written() -> set[Path]:
    """The pages of the repository, and the pictures and examples that they name."""
    return {
        path
        for pattern in WRITTEN
        for component in COMPONENTS
        for path in ROOT.glob(pattern.format(component=component))
    }


def generated() -> Iterator[tuple[str, str]]:
    """Path and text of the pages that no file of the repository contains."""
    yield "reference/commands.md", commands()
    yield from evaluator_lists.pages()
    rows = "".join(f"| `{code}` | {meaning} |\n" for code, meaning in MEANINGS.items())
    yield "reference/findings.md", f"# Findings\n\n| code on a turn | meaning |\n| --- | --- |\n{rows}"
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for module in PUBLIC_MODULES:
        modules[module.partition(".")[0]].append(public_names(module))
    for package, sections in modules.items():
        yield f"reference/{package}.md", "\n\n".join([f"# {package}", *sections])


def commands() -> str:
    """Each command with its help and its options."""
    intro = (
        "# Commands\n\n`a2a-eval-proxy COMMAND --help` prints the same. Each option is also an environment variable and"
        " a key of a file: see [Settings](../proxy/docs/settings.md).\n"
    )
    return "\n".join([intro, *(command_section(name, cli.commands[name]) for name in sorted(cli.commands))])


def command_section(name: str, command: click.Command) -> str:
    assert isinstance(command, Command)
    context = click.Context(command)
    usage = " ".join([f"a2a-eval-proxy {name}", *command.collect_usage_pieces(context)])
    paragraphs = [f"## {name}", f"```\n{usage}\n```", (command.help or "").replace("\b\n", "")]
    declared = options_of(command.options)
    grouped: defaultdict[str, list[str]] = defaultdict(list)
    for parameter in command.params:
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)):
            known = declared.get(parameter.name or "")
            flags, text = (cell.replace("|", "\\|") for cell in record)
            grouped[known.group if known else OptionGroup.OTHER].append(f"| `{flags}` | {text} |")
    tables = [
        "\n".join([f"| {group} | |", "| --- | --- |", *grouped[group]]) for group in OptionGroup if grouped[group]
    ]
    if name == "check":
        rows = [
            f"| `{rule.id}` | {rule.severity.value} | {rule.title} | {rule.why} | {rule.fix} |"
            for rule in (*CARD_RULES, *TRAFFIC_RULES)
        ]
        head = ["| rule | severity | requirement | why | repair |", "| --- | --- | --- | --- | --- |"]
        tables.append("\n".join([*head, *rows]))
    return "\n\n".join([*paragraphs, *tables, ""])


def public_names(module: str) -> str:
    """What the site shows of a module: its docstring and its public names, with signatures and docstrings."""
    package = importlib.import_module(module)
    in_room = hasattr(package, "__path__")
    shadowed = [
        name for name in package.__all__ if in_room and find_spec(f"{module}.{name}")
    ]  # by a module of its name
    members = [name for name in package.__all__ if name not in shadowed]
    first = f"::: {module}\n    options:\n      show_root_heading: false\n      members: {members}"
    title = [f"## {module}"] if "." in module else []
    return "\n\n".join([*title, first, *(f"::: {module}.{name}.{name}" for name in shadowed), ""])


def collect(pages: Path = PAGES) -> None:
    """Make the folder `pages` again."""
    shutil.rmtree(pages, ignore_errors=True)
    for path in written():
        copy = pages / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    for name, text in generated():
        page = pages / name
        page.parent.mkdir(exist_ok=True)
        page.write_text(text, "utf-8")


if __name__ == "__main__":
    collect()
