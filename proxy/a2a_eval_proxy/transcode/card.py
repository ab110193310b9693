"""The agent card that clients of a transcoded agent get."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import yaml
from a2a.types import AgentCard, AgentInterface
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from ..errors import ConfigError
from ..net.file_watcher import FileWatch
from ..protocol.operations import Binding
from ..settings.settings import AgentSettings

logger = logging.getLogger(__name__)
_FIELDS = {name for field in AgentCard.DESCRIPTOR.fields for name in (field.name, field.json_name)}


class ConfiguredCard:
    """The card of an agent that has no extended card: that of the file `transcode_card`, completed with defaults."""

    card: AgentCard

    def __init__(self, settings: AgentSettings, files: FileWatch) -> None:
        """Reads the file, and again when `files` finds it replaced. Raises ConfigError."""
        self._address = settings.grpc_upstream or ""
        self._path = settings.transcode_card
        files.add("the agent card", [self._path] if self._path else [], self._load)

    @property
    def content(self) -> dict[str, Any]:
        """The card as JSON."""
        content: dict[str, Any] = MessageToDict(self.card)
        return content

    def _load(self) -> None:
        given: Any = {}
        try:
            if self._path:
                given = yaml.safe_load(Path(self._path).read_text("utf-8"))
            if not isinstance(given, dict):
                raise ValueError("expected an object with the fields of an agent card")
            content = {**_defaults(str(given.get("name") or self._address), self._address), **given}
            self.card = ParseDict(content, AgentCard(), ignore_unknown_fields=True)
        except OSError as error:
            raise ConfigError(f"transcode_card: {self._path} cannot be read: {error.strerror}") from None
        except (ValueError, yaml.YAMLError, ParseError) as error:
            raise ConfigError(f"transcode_card: {self._path} is not an agent card: {error}") from None
        if unknown := sorted(map(str, given.keys() - _FIELDS)):
            names = ", ".join(unknown)
            logger.warning("transcode_card: %s: no fields of an agent card of A2A 1.0, left out: %s", self._path, names)


def _defaults(name: str, address: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"The agent {name}",
        "version": "unknown",
        "supportedInterfaces": [{"url": address, "protocolBinding": Binding.GRPC, "protocolVersion": "1.0"}],
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "conversation", "name": name, "description": "Answers messages", "tags": ["conversation"]}],
    }


def offered(card: AgentCard, settings: AgentSettings) -> AgentCard:
    """The agent's card with the interfaces that the proxy offers in place of its own, under the URL of the agent: the
    relay replaces that with its own, as in every card. A signature would not verify any more."""
    address = settings.grpc_upstream
    tenant = next((entry.tenant for entry in card.supported_interfaces if entry.tenant), "")
    places = [
        (version, binding, url)
        for version in ("1.0", "0.3")
        for binding, url in (
            (Binding.JSONRPC, f"http://{address}/"),
            (Binding.HTTP_JSON, f"http://{address}"),
            *([(Binding.GRPC, address)] if settings.grpc else []),
        )
    ]
    made = AgentCard()
    made.CopyFrom(card)
    made.ClearField("signatures")
    made.ClearField("supported_interfaces")
    made.supported_interfaces.extend(
        AgentInterface(url=url, protocol_binding=binding, protocol_version=version, tenant=tenant)
        for version, binding, url in places
    )
    return made
