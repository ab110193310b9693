"""The documents: links lead somewhere, modules exist, and the first page stays short."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from operator import attrgetter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page
    for pattern in ("*.md", "proxy/**/*.md", "evaluators/**/*.md", "extension/**/*.md", "deploy/**/*.md")
    for page in ROOT.glob(pattern)
    if "node_modules" not in page.parts
)


@cache
def anchors(page: Path) -> set[str]:
    """The fragments of a page: its headings, as GitHub makes them, and its own anchors."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    named = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return named | set(re.findall(r'<a id="([^"]+)">', text))


def broken_links(page: Path) -> Iterator[str]:
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        path, _, fragment = target.partition("#")
        file = (page.parent / path) if path else page
        if not file.exists():
            yield f"{page}: {target}: no such file"
        elif fragment and file.suffix == ".md" and fragment not in anchors(file.resolve()):
            yield f"{page}: {target}: no such heading"


def test_links_lead_somewhere() -> None:
    assert len(PAGES) > 20
    assert [problem for page in PAGES for problem in broken_links(page)] == []


def test_pages_install_from_a_clone() -> None:
    assert [page for page in PAGES if re.search(r"install\s+'a2a-eval-proxy\[", page.read_text("utf-8"))] == []


ARCHITECTURE = (ROOT / "proxy/docs/architecture.md").read_text("utf-8")
OURS = ("a2a_eval_proxy", "tool_call_evaluators", "a2a_tool_capture")
STEP = re.compile(r"\| \d+ \| (\*\*)?`([a-z_0-9.]+)`(?:\*\*)? \| (`.+?`) \|")
"""A row of a table of steps: a module, in bold where a reader opens it, and its functions."""


def full(module: str) -> str:
    """The name of a module, which on the page may be without that of the proxy's package."""
    return module if module.startswith(OURS) else f"a2a_eval_proxy.{module}"


def test_the_modules_of_the_architecture_page_exist() -> None:
    text = ARCHITECTURE.partition("<!-- layers")[0] + ARCHITECTURE.partition("<!-- /layers -->")[2]
    named = set(re.findall(r"`([a-z_0-9]+(?:\.[a-z_0-9]+)+)`", text))
    assert len(named) > 30
    assert [name for name in sorted(named) if importlib.util.find_spec(full(name)) is None] == []


def test_the_functions_of_the_architecture_page_exist() -> None:
    steps = [(module, names) for _, module, names in STEP.findall(ARCHITECTURE)]
    assert len(steps) > 10
    for module, names in steps:
        for name in re.findall(r"`([\w.]+)`", names):
            attrgetter(name)(importlib.import_module(full(module)))  # raises AttributeError


def test_the_names_of_the_architecture_page_stand_in_the_code() -> None:
    folders = [ROOT / name for name in ("extension", "evaluators", "proxy", "tests")]
    sources = (path.read_text("utf-8") for folder in folders for path in folder.rglob("*.py"))
    known = {word for text in sources for word in re.findall(r"\w+", text)}
    named = set(re.findall(r"`(?:\w+\.)*([A-Za-z_]\w+)`", ARCHITECTURE))
    assert len(named) > 100
    assert named - known == set()


def test_a_reader_of_the_architecture_page_opens_few_modules() -> None:
    steps = STEP.findall(ARCHITECTURE)
    opened = {module for is_bold, module, _ in steps if is_bold}
    assert {module for _, module, _ in steps} == opened
    assert len(opened) <= 12
