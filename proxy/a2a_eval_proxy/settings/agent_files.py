"""The files that name several agents: the config file, and a directory with a file for each."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

from ..errors import ConfigError
from ..files import yaml_files
from .options import read_config_file
from .parsing import AGENTS
from .settings import AgentsOptions

T = TypeVar("T", bound=AgentsOptions)

logger = logging.getLogger(__name__)


class AgentFiles(Generic[T]):
    """Where the agents of these settings are written, if they may change while the proxy runs."""

    def __init__(self, settings: T, config: str | None = None) -> None:
        """`config`: the file of `--config`. Raises ConfigError."""
        self._settings = settings
        self._former: dict[Path, tuple[str, str]] = {}
        """The agents in use, by the files of the directory; and what is wrong with others."""
        self._mistakes: dict[Path, str] = {}
        self._config = config if config and settings.agents and self._in_config(config) == settings.agents else None

    @property
    def paths(self) -> list[str]:
        """The files and directories to watch."""
        return [path for path in (self._config, self._settings.agents_dir) if path]

    @property
    def refused(self) -> set[str]:
        """The agents whose files in the directory have mistakes."""
        return {path.stem for path in self._mistakes}

    def read(self) -> T:
        """The settings with the agents that the files have now. Raises ConfigError.

        A file of the directory with a mistake concerns its agent alone, as several people may write these files: it is
        logged, and the agent stays as it was, or is left out. If no agent is left, the first mistake is raised.
        """
        settings = self._settings
        agents = settings.agents if self._config is None else self._in_config(self._config)
        if not settings.agents_dir:
            return replace(settings, agents=agents)
        try:
            files = yaml_files(settings.agents_dir)
            found = [(path, _in_file(path)) for path in files]
            read = replace(settings, agents=(*agents, *(own for _, own in found)))
        except OSError as error:
            raise ConfigError(f"agents_dir: cannot read {settings.agents_dir}: {error.strerror}") from None
        except ConfigError:
            return self._without_mistakes(replace(settings, agents=agents), files)
        self._former, self._mistakes = dict(found), {}
        return read

    def _without_mistakes(self, settings: T, files: list[Path]) -> T:
        mistakes, alone, used = {}, {}, {}
        for path in sorted(files, key=lambda path: path not in self._former):  # a name stays with the file that has it
            try:
                own = _in_file(path)
                replace(settings, agents=(own,))
            except ConfigError as error:
                mistakes[path] = str(error).removeprefix(f"--config: {path}:")
            else:
                alone[path] = own
        try:
            settings, used = replace(settings, agents=(*settings.agents, *alone.values())), alone
        except ConfigError:  # a name or host that is another agent's: with each, all are read again
            for path, own in alone.items():
                try:
                    settings = replace(settings, agents=(*settings.agents, own))
                except ConfigError as error:
                    mistakes[path] = str(error)
                else:
                    used[path] = own
        for path, mistake in mistakes.items():
            stays = "it is not served"
            if former := self._former.get(path):
                with suppress(ConfigError):  # by now another agent may have its name or its hosts
                    settings = replace(settings, agents=(*settings.agents, former))
                    used[path], stays = former, "the earlier one stays in use"
            if self._mistakes.get(path) != mistake:
                logger.error("agent %s: %s, %s: %s", path.stem, stays, path, mistake)
        if not settings.agents and mistakes:
            path, mistake = next(iter(mistakes.items()))
            raise ConfigError(f"{path}: {mistake}")
        self._former, self._mistakes = used, mistakes
        return settings

    def _in_config(self, path: str) -> tuple[tuple[str, str], ...]:
        file = read_config_file(path, None)
        if "agents" not in file.values:
            return ()
        try:
            agents: tuple[tuple[str, str], ...] = AGENTS.parse(file.values["agents"])
        except ValueError as error:
            raise ConfigError(f"{file.places['agents']}: agents: {error}") from None
        return agents


def _in_file(path: Path) -> tuple[str, str]:
    """The agent in a file of the directory. Raises ConfigError, which does not name the file where it is no YAML."""
    own = read_config_file(str(path), None).values
    try:
        agents: tuple[tuple[str, str], ...] = AGENTS.parse({path.stem: dict(own)})
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return agents[0]
