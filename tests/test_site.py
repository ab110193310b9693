"""The site of the documentation: it builds without a warning, and shows what the repository and the code have."""

from __future__ import annotations

import html
import importlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from a2a_eval_proxy.cli.command import Command
from a2a_eval_proxy.cli.group import cli
from a2a_eval_proxy.settings.options import flag_name, options_of
from markdown_it import MarkdownIt
from support.public_api import PUBLIC_MODULES
from support.running import untimed
from support.site import ROOT, collect, generated, written

CONFIG = ROOT / "mkdocs.yml"
WRITTEN = sorted(path.relative_to(ROOT).as_posix() for path in written() if path.suffix == ".md")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.about(
        "mkdocs.yml",
        "README.md",
        "CONTRIBUTING.md",
        "proxy/docs",
        "extension/docs",
        "evaluators/docs",
        "deploy/README.md",
    ),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    collect(folder / "artifacts/pages")
    shutil.copy(CONFIG, folder)
    for name in ("extension", "evaluators", "proxy"):
        (folder / name).symlink_to(ROOT / name)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    with untimed():
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "artifacts/site"


def built(site: Path, page: str) -> str:
    """The article that a page became."""
    path = Path(page).with_suffix("")
    folder = path.parent if path.name == "README" else path
    return (site / folder / "index.html").read_text("utf-8")


def test_the_navigation_leads_to_every_page_once() -> None:
    def pages(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        else:
            for inner in entry if isinstance(entry, list) else entry.values():
                yield from pages(inner)

    navigation = re.search(r"^nav:\n(?: .*\n)+", CONFIG.read_text("utf-8"), re.MULTILINE)
    assert navigation
    assert sorted(pages(yaml.safe_load(navigation[0])["nav"])) == sorted([*WRITTEN, *(name for name, _ in generated())])


def test_pages_are_laid_out_as_where_they_are_written(site: Path) -> None:
    """Markdown has dialects: in that of the site, a list right after a line of text is part of the text."""
    markdown = MarkdownIt("commonmark").enable("table")

    def laid_out(text: str) -> list[int]:
        return [len(re.findall(rf"<{element}[ >]", text)) for element in ("li", "table", "td", "pre", "strong", "img")]

    for page in WRITTEN:
        (article,) = re.findall(r"<article.*?>(.*)</article>", built(site, page), re.DOTALL)
        assert laid_out(article) == laid_out(markdown.render((ROOT / page).read_text("utf-8"))), page


def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    text = html.unescape(built(site, "reference/commands.md"))
    for name, command in cli.commands.items():
        assert isinstance(command, Command)
        section = text.partition(f'<h2 id="{name}">')[2].partition("<h2 ")[0]
        assert section, name
        options = {key for key, option in options_of(command.options).items() if not option.positional}
        missing = [key for key in options if not re.search(rf"<code>(-\w, )?{flag_name(key)}\b", section)]
        assert missing == [], f"{name}: {missing}"


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_every_public_name_is_in_the_reference(site: Path, module: str) -> None:
    package = module.partition(".")[0]
    headings = set(re.findall(r'<h2 id="[\w.]*?(\w+)"', built(site, f"reference/{package}.md")))
    assert set(importlib.import_module(module).__all__) - headings == set()


@pytest.mark.parametrize(
    ("page", "sought"),
    [
        ("capture", "my agent's calls are not visible"),
        ("runs", "proxy variable"),
        ("runs", "compare two versions"),
        ("deploy", "kubernetes sidecar"),
    ],
)
def test_a_section_has_the_words_that_people_search(site: Path, page: str, sought: str) -> None:
    """The search looks for all words in one section."""
    sections = json.loads((site / "search.json").read_text("utf-8"))["items"]
    found = [
        section["location"]
        for section in sections
        if all(word in f"{section['title']} {section['text']} {section['path']}".lower() for word in sought.split())
    ]
    assert any(page in location for location in found), found
