"""The dependencies of a2a-eval-proxy: those listed in pyproject.toml, and the extension, in the same version. And its
description, made as that of the extension is.

A wheel that is built by `python -m build` or `hatchling build`, or from an sdist, requires `a2a-tool-capture==VERSION`
and can be published. Where pip builds from a checkout (`pip install .`), the requirement names the folder
`extension`: no package index has that distribution. uv finds the folder by `tool.uv.sources`.
"""

import os
import re
import runpy
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

VERSION_FILE = "extension/a2a_tool_capture/__init__.py"


class Metadata(MetadataHookInterface):
    """Fills in `project.readme`, and `project.dependencies`, which an sdist has already."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Raises ValueError where the version of the extension cannot be read."""
        root = Path(self.root)
        metadata["readme"] = runpy.run_path(str(root / "extension/hatch_build.py"))["description"](root / "README.md")
        if "dependencies" not in metadata:
            metadata["dependencies"] = [self._extension(), *self.config["dependencies"]]

    def _extension(self) -> str:
        root = Path(self.root)
        if "PIP_BUILD_TRACKER" in os.environ:  # pip sets it for every build, and nobody else does
            return f"a2a-tool-capture @ {(root / 'extension').as_uri()}"
        version = re.search(r'^__version__ = "(.+)"$', (root / VERSION_FILE).read_text("utf-8"), re.MULTILINE)
        if version is None:
            raise ValueError(f"{VERSION_FILE} has no line '__version__ = \"...\"'")
        return f"a2a-tool-capture=={version[1]}"
