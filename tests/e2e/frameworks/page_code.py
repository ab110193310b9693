"""The agents of extension/docs/frameworks as code, for programs that have the standard library alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

PAGES = Path(__file__).parents[3] / "extension/docs/frameworks"


def sections() -> dict[str, str]:
    """What the pages on Python say, by the letters and digits of the headings in lower case."""
    texts = ((PAGES / f"{page}.md").read_text("utf-8") for page in ("README", "bridges", "decorated"))
    parts = (part for text in texts for part in text.split("\n## ")[1:])
    return {_letters(part.partition("\n")[0]): part for part in parts}


def section(framework: str) -> str:
    """What the pages say of a framework, named as `doctor --framework` names it."""
    return sections()[_letters(framework)]


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def diff_of(framework: str) -> str:
    """The diff that shows the lines for the extension."""
    text = section(framework)
    (diff,) = [one for one in re.findall(r"```diff\n(.*?)```", text, re.DOTALL) if one.startswith(" # agent.py\n")]
    return str(diff)


def code_of(framework: str, mark: str, replaced: Mapping[str, str]) -> str:
    """agent.py before (`-`) or after (`+`) these lines, with `replaced`: its provider's model, what starts a server."""
    code = "".join(line[1:] + "\n" for line in diff_of(framework).splitlines() if line[:1] in (" ", mark, ""))
    for old, new in replaced.items():
        assert old in code, f"{framework} has no {old}"
        code = code.replace(old, new)
    return code
