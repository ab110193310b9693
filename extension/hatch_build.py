"""The description of a distribution on a package index: README.md without links to files of the repository."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK_TO_FILE = re.compile(r"!?\[([^\]]*)\]\((?!https?://|#)[^)]*\)")
_WHERE = "\nPages that are named here without a link are in the source distribution.\n"


def description(readme: Path) -> dict[str, str]:
    """`project.readme`: the text of links and pictures that are files of the repository, in their place."""
    text = _LINK_TO_FILE.sub(r"\1", readme.read_text("utf-8")) + _WHERE
    return {"content-type": "text/markdown", "text": text}


class Description(MetadataHookInterface):
    """Fills in `project.readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        metadata["readme"] = description(Path(self.root) / "README.md")
