"""Styles and scripts, with a hash of their content in their names, so that browsers may keep them forever."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

from tool_call_evaluators.report.html import asset as report_asset

STYLE, SCRIPT, ICON = "page.css", "main.js", "icon.svg"
_MORE_STYLES = ("screens.css", "work.css")
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_IMPORT = re.compile(r'(from "\./)([\w-]+\.js)(")')


@dataclass(frozen=True, slots=True)
class AssetFile:
    content: bytes
    media_type: str


class AssetFiles:
    """The files by the names in their URLs, such as `page.0123456789ab.css`.

    The style contains that of the report. Scripts import each other by these names.
    """

    def __init__(self) -> None:
        self._sources = {path.name: path.read_text("utf-8") for path in files(__package__).joinpath("assets").iterdir()}
        self._sources[STYLE] = "".join(
            [report_asset("report.css"), self._sources[STYLE], *map(self._sources.pop, _MORE_STYLES)]
        )
        self.names: dict[str, str] = {}
        """Their names in URLs, by file name."""
        self.by_name: dict[str, AssetFile] = {}
        for name in self._sources:
            self._add(name)

    def _add(self, name: str) -> str:
        """The name in the URL; the files that it imports come first, since its content names them."""
        if name not in self.names:
            content = _IMPORT.sub(lambda found: found[1] + self._add(found[2]) + found[3], self._sources[name]).encode()
            stem, _, kind = name.rpartition(".")
            self.names[name] = f"{stem}.{sha256(content).hexdigest()[:12]}.{kind}"
            self.by_name[self.names[name]] = AssetFile(content, _TYPES[kind])
        return self.names[name]
