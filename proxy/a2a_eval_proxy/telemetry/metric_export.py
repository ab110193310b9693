"""Instruments as observable ones of OpenTelemetry: read when exported, so counting costs what it did before."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from .instruments import Instrument, Source

_ATTRIBUTES = {"evaluator": "gen_ai.evaluation.name"}
"""Names of labels that the semantic conventions name otherwise."""


def observe(meter: Meter, *sources: Source) -> None:
    """Report the instruments that have a unit on `meter`. They are read in the exporter's thread."""
    for source in sources:
        for instrument in source.instruments:
            if instrument.unit:
                gauge, counter = meter.create_observable_up_down_counter, meter.create_observable_counter
                create: Callable[..., object] = gauge if instrument.is_gauge else counter
                name = f"a2a_eval_proxy.{instrument.name}"
                create(name, [_callback(instrument, source.read)], instrument.unit, instrument.text)


def _callback(instrument: Instrument, read: Callable[[], object]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    names = [_ATTRIBUTES.get(label, label) for label in instrument.labels]

    def observations(_: CallbackOptions) -> list[Observation]:
        series = instrument.series(instrument.reading(read()))
        return [Observation(number, dict(zip(names, labels, strict=True))) for labels, number in series]

    return observations
