"""What the findings of the proxy mean: the table of findings.md, a page of the documentation, next to this module."""

from __future__ import annotations

import re
from importlib.resources import files


def _meanings(page: str) -> dict[str, str]:
    """The rows of the table by code. Several codes share a row; links become their text."""
    text = re.sub(r"\[(.+?)\]\(.+?\)", r"\1", page.replace("`", ""))
    rows = re.findall(r"^\| ([a-z_, ]+) \| (.+) \|$", text, re.MULTILINE)
    return {code: meaning for codes, meaning in rows if codes != "code" for code in codes.split(", ")}


MEANINGS = _meanings(files(__package__).joinpath("findings.md").read_text("utf-8"))
