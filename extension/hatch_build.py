"""The description of a distribution on a package index: README.md, whose links lead to the files of this version in the
repository that `[project.urls]` names. Where it names none, these links are text, and pictures are left out."""

import posixpath
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

VERSION_FILE = "a2a_tool_capture/__init__.py"
_LINK_TO_FILE = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?!https?://|#)(?P<path>[^)]*)\)")


def version(extension: Path) -> str:
    """The version of both distributions. Raises ValueError where it cannot be read."""
    found = re.search(r'^__version__ = "(.+)"$', (extension / VERSION_FILE).read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise ValueError(f"{extension / VERSION_FILE} has no line '__version__ = \"...\"'")
    return found[1]


def description(readme: Path, metadata: dict[str, Any], tag: str, folder: str = "") -> dict[str, str]:
    """`project.readme`. `folder` is that of the file in the repository; `tag` names the version there."""
    repository = metadata.get("urls", {}).get("Repository")

    def absolute(link: re.Match[str]) -> str:
        if repository is None:
            return "" if link["picture"] else link["text"]
        kind = "raw" if link["picture"] else "blob"
        path = posixpath.normpath(posixpath.join(folder, link["path"]))
        return f"{link['picture']}[{link['text']}]({repository}/{kind}/{tag}/{path})"

    return {"content-type": "text/markdown", "text": _LINK_TO_FILE.sub(absolute, readme.read_text("utf-8"))}


class Description(MetadataHookInterface):
    """Fills in `project.readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        metadata["readme"] = description(root / "README.md", metadata, f"v{version(root)}", "extension")
