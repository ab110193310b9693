"""The settings of webhooks."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

from ...errors import ConfigError
from ...settings import parsing as types
from ...settings.options import OptionGroup, option
from ...settings.parsing import ValueType
from ...settings.parts import TlsFilesOptions, TlsOptions
from .targets import WebhookTargets

_DEFAULT_LISTEN = "127.0.0.1:8083"
_agent = partial(option, group=OptionGroup.AGENT)


def _targets(value: Any) -> tuple[str, ...]:
    targets: tuple[str, ...] = types.NAMES.parse(value)
    WebhookTargets(targets)
    return targets


class PushSettings(TlsOptions):
    push: str | None = _agent(
        types.one_of("relay", "pass"),
        "What to do with the webhooks that clients register: relay the agent's notifications, or let them pass the "
        "proxy. Default: relay with --push-url, else pass.",
        of_agent=True,
    )
    push_url: str | None = _agent(
        types.URL,
        "URL at which the agent reaches --push-listen; it is given to the agent for webhooks.",
        names_agent=True,
    )
    push_listen: str = _agent(types.ADDRESS, "Address to receive the agent's notifications on.", _DEFAULT_LISTEN)
    push_allow: tuple[str, ...] = _agent(
        ValueType(_targets, "TARGET,...", unset=()),
        "Targets of webhooks that clients may register: public (any public address), host names (*.example.com: those "
        "below it), addresses, networks. Default: public.",
        of_agent=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.push == "relay" and not self.push_url:
            raise ConfigError("push: relay requires push_url, the URL at which the agent reaches push_listen")
        if self.push_listen != _DEFAULT_LISTEN and not self.push_url:
            raise ConfigError(
                f"push_listen: nothing is received on {self.push_listen} without push_url, the URL at which the agent "
                "reaches it"
            )
        own = self.tls_ports.push
        if own is not None and own.cert and self.push_url and not self.push_url.startswith("https://"):
            raise ConfigError(f"tls_ports.push: requires a push_url that begins with https://, got {self.push_url}")

    @cached_property
    def push_mode(self) -> str:
        """`relay` or `pass`."""
        return self.push or ("relay" if self.push_url else "pass")

    def addresses(self) -> dict[str, str | None]:
        return super().addresses() | {"push_listen": self.push_listen if self.push_mode == "relay" else None}

    def tls_of(self, port: str) -> tuple[TlsFilesOptions, str]:
        """Notifications to an address with http:// come in plain text."""
        if port == "push" and not (self.push_url or "").startswith("https://"):
            return TlsFilesOptions(), ""
        return super().tls_of(port)
