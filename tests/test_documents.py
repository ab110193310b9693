"""The documents: links lead somewhere, modules exist, and the first page stays short."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page
    for pattern in ("*.md", "proxy/**/*.md", "evaluators/**/*.md", "extension/**/*.md", "deploy/**/*.md")
    for page in ROOT.glob(pattern)
    if "node_modules" not in page.parts
)


def anchors(page: Path) -> set[str]:
    """The fragments of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        path, _, fragment = target.partition("#")
        file = (page.parent / path) if path else page
        assert file.exists(), f"{target}: no such file"
        if fragment and file.suffix == ".md":
            assert fragment in anchors(file.resolve()), f"{target}: no such heading"


def test_the_first_page_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) < 150


def test_the_modules_of_the_architecture_page_exist() -> None:
    text = (ROOT / "proxy/docs/architecture.md").read_text("utf-8")
    packages = ("a2a_eval_proxy", "tool_call_evaluators", "a2a_tool_capture")
    named = set(re.findall(r"`([a-z_0-9]+(?:\.[a-z_0-9]+)+)`", text))
    full = {name if name.startswith(packages) else f"a2a_eval_proxy.{name}" for name in named}
    assert len(full) > 30
    assert [name for name in sorted(full) if importlib.util.find_spec(name) is None] == []
