"""The agents behind the proxy: the settings that each may have of its own."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from a2a_tool_capture.secret_references import unset_variables

from ..errors import ConfigError
from .options import Option, Options
from .parsing import NAMES, ValueType

OWN = frozenset(
    {
        *("upstream", "card_path", "negotiate", "require_artifact_uri", "dialects"),
        *("upstream_tls", "upstream_header", "limits", "timeouts", "turn_timeout", "public_url"),
        *("push", "push_allow", "redact", "redact_key", "no_content", "run", "suite"),
        *("judge_budget", "trace_wait", "expect_traces", "retain_days", "retain_mb"),
    }
)
"""The settings that an agent may have of its own; the others are those of the ports, the store and the processes."""

_OWN_PARTS = {"limits": {"body_bytes", "agent_connections"}, "timeouts": {"connect", "response"}}
"""Of objects, what an agent may have of its own, where that is not all."""

_HOSTS = "hosts"
_HOST = re.compile(r"[\w.-]+|\[[0-9A-Fa-f:.]+\]", re.ASCII)


def own_settings(
    name: str, own: Mapping[str, Any], options: Mapping[str, Option], shared: Options, read: Collection[str] = OWN
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The parsed settings of an agent, of those that are `options` of the proxy and to be `read`, and its hosts;
    objects are laid over those that are `shared`. Raises ConfigError."""
    values: dict[str, Any] = {}
    hosts: tuple[str, ...] = ()
    for key, value in own.items():
        place = f"agents.{name}.{key}"
        if key == _HOSTS:
            hosts = _HOST_NAMES.parse(place, value)
        elif key not in OWN:
            raise ConfigError(f"{place}: {_unknown(key, key in options)}")
        elif value is not None and key in read:
            if options[key].references and (unset := unset_variables(str(value))):
                raise ConfigError(f"{place}: needs the environment variable {unset[0]}, which is not set")
            values[key] = options[key].parse(place, value)
            if options[key].parts is not None:
                if others := values[key].keys() - _OWN_PARTS.get(key, values[key].keys()):
                    raise ConfigError(f"{place}.{min(others)}: {_unknown(key, True)}")
                values[key] = replace(getattr(shared, key), **values[key])
    if own.get("upstream") is None:
        raise ConfigError(f"agents.{name}.upstream is required: write the URL of the agent")
    return values, hosts


def _hosts(value: Any) -> tuple[str, ...]:
    hosts: tuple[str, ...] = NAMES.parse(value)
    if not all(map(_HOST.fullmatch, hosts)):
        raise ValueError("expected host names such as orders.example.com, without port")
    return tuple(host.lower().rstrip(".") for host in hosts)


_HOST_NAMES = Option(type=ValueType(_hosts, "NAME,..."), help="Names in `Host` of requests for an agent.")


def _unknown(key: str, of_proxy: bool) -> str:
    from tool_call_evaluators.options import or_known  # slow to import

    if of_proxy:
        return "is a setting of the proxy, which all agents share; write it above `agents`"
    return f"unknown setting {key!r}{or_known(key, sorted({*OWN, _HOSTS}))}"
