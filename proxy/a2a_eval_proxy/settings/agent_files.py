"""The files that name several agents: the config file, and a directory with a file for each."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from ..errors import ConfigError
from ..files import yaml_files
from .options import read_config_file
from .parsing import AGENTS
from .settings import Settings


class AgentFiles:
    """Where the agents of these settings are written, if they may change while the proxy runs."""

    def __init__(self, settings: Settings, config: str | None = None) -> None:
        """`config`: the file of `--config`. Raises ConfigError."""
        self._settings = settings
        self._config = config if config and settings.agents and self._in_config(config) == settings.agents else None

    @property
    def paths(self) -> list[str]:
        """The files and directories to watch."""
        return [path for path in (self._config, self._settings.agents_dir) if path]

    def read(self) -> Settings:
        """The settings with the agents that the files have now. Raises ConfigError."""
        agents = self._settings.agents if self._config is None else self._in_config(self._config)
        if self._settings.agents_dir:
            agents += _in_directory(self._settings.agents_dir)
        return replace(self._settings, agents=agents)

    def with_settings(self, settings: Settings) -> AgentFiles:
        """The same files, for these settings of the proxy."""
        files = copy(self)
        files._settings = replace(settings, agents=self._settings.agents)
        return files

    def _in_config(self, path: str) -> tuple[tuple[str, str], ...]:
        file = read_config_file(path, None)
        if "agents" not in file.values:
            return ()
        try:
            agents: tuple[tuple[str, str], ...] = AGENTS.parse(file.values["agents"])
        except ValueError as error:
            raise ConfigError(f"{file.places['agents']}: agents: {error}") from None
        return agents


def _in_directory(directory: str) -> tuple[tuple[str, str], ...]:
    agents: tuple[tuple[str, str], ...] = ()
    try:
        files = yaml_files(directory)
    except OSError as error:
        raise ConfigError(f"agents_dir: cannot read {directory}: {error.strerror}") from None
    for path in files:
        own = read_config_file(str(path), None).values
        try:
            agents += AGENTS.parse({path.stem: dict(own)})
        except ValueError as error:
            raise ConfigError(f"{path}: {error}") from None
    return agents
