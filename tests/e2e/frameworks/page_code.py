"""The agent.py of a page of extension/docs/frameworks as code, for programs that have the standard library alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

PAGES = Path(__file__).parents[3] / "extension/docs/frameworks"


def diff_of(page: str) -> str:
    """The diff that shows the lines for the extension."""
    text = (PAGES / f"{page}.md").read_text("utf-8")
    (diff,) = [one for one in re.findall(r"```diff\n(.*?)```", text, re.DOTALL) if one.startswith(" # agent.py\n")]
    return str(diff)


def code_of(page: str, mark: str, replaced: Mapping[str, str]) -> str:
    """agent.py before (`-`) or after (`+`) these lines, with `replaced`: its provider's model, what starts a server."""
    code = "".join(line[1:] + "\n" for line in diff_of(page).splitlines() if line[:1] in (" ", mark, ""))
    for old, new in replaced.items():
        assert old in code, f"{page}.md has no {old}"
        code = code.replace(old, new)
    return code
