"""Our own telemetry: whether it is wanted. Nothing of OpenTelemetry's SDK is imported unless it is."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .problem_log import report

if TYPE_CHECKING:
    from ..privacy.policy import Privacy
    from .provider import Telemetry

logger = logging.getLogger(__name__)

SIGNALS = ("traces", "logs")

_PROTOCOL = "http/protobuf"


def wanted_signals(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Those of `SIGNALS` for which the environment names an OTLP endpoint; () where there is nothing to export.

    The variables are OpenTelemetry's: `OTEL_EXPORTER_OTLP_ENDPOINT`, or one for a signal such as
    `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`; `OTEL_TRACES_EXPORTER=none` leaves a signal out, `OTEL_SDK_DISABLED=true`
    all of them. A variable set to nothing counts as not set.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    return tuple(signal for signal in SIGNALS if _is_wanted(signal.upper(), environment))


def _is_wanted(signal: str, environment: Mapping[str, str]) -> bool:
    def of_signal(setting: str) -> str:
        return environment.get(f"OTEL_EXPORTER_OTLP_{signal}_{setting}") or environment.get(
            f"OTEL_EXPORTER_OTLP_{setting}", ""
        )

    exporters = environment.get(f"OTEL_{signal}_EXPORTER") or "otlp"
    if not of_signal("ENDPOINT") or "otlp" not in [name.strip() for name in exporters.split(",")]:
        return False
    protocol = of_signal("PROTOCOL") or _PROTOCOL
    if protocol != _PROTOCOL:
        logger.warning(
            "%s are not exported: OTLP is spoken over %s only, not over %s; set OTEL_EXPORTER_OTLP_PROTOCOL=%s and "
            "an endpoint for that (port 4318 as a rule)",
            signal.lower(),
            _PROTOCOL,
            protocol,
            _PROTOCOL,
        )
    return protocol == _PROTOCOL


def start_telemetry(privacy: Privacy) -> Telemetry | None:
    """Telemetry as this process's environment wants it; None where it wants none, or where telemetry is not available.

    The rules of `privacy` apply to each text in a span.
    """
    signals = wanted_signals(os.environ)
    if not signals:
        return None
    try:
        from .provider import Telemetry

        return Telemetry(signals, privacy.text if privacy.changes_turns else None)
    except Exception as error:  # noqa: BLE001  # a proxy without telemetry is better than none
        report(error)
        return None
