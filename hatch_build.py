"""The dependencies of a2a-eval-proxy: those listed in pyproject.toml, and the extension, in the same version. And its
description, made as that of the extension is.

A wheel that is built by `python -m build` or `hatchling build`, or from an sdist, requires `a2a-tool-capture==VERSION`
and can be published. Where pip builds from a checkout (`pip install .`), the requirement names the folder
`extension`: no package index has that distribution. uv finds the folder by `tool.uv.sources`.
"""

import os
import runpy
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Metadata(MetadataHookInterface):
    """Fills in `project.readme`, and `project.dependencies`, which an sdist has already."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Raises ValueError where the version of the extension cannot be read."""
        root = Path(self.root)
        of_the_extension = runpy.run_path(str(root / "extension/hatch_build.py"))
        version = of_the_extension["version"](root / "extension")
        metadata["readme"] = of_the_extension["description"](root / "README.md", metadata, f"v{version}")
        if "dependencies" not in metadata:
            metadata["dependencies"] = [self._extension(version), *self.config["dependencies"]]

    def _extension(self, version: str) -> str:
        if "PIP_BUILD_TRACKER" in os.environ:  # pip sets it for every build, and nobody else does
            return f"a2a-tool-capture @ {(Path(self.root) / 'extension').as_uri()}"
        return f"a2a-tool-capture=={version}"
