"""Posts OTLP bodies, and knows when the proxy has taken in all of their spans."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterable, Iterator

from .load import LoadError
from .spans import Body
from .targets import Running

CONNECTIONS = 4
"""Exporters at once; each waits for its answer before it sends the next batch, as OpenTelemetry SDKs do."""

_POLL_S = 0.02
_COME_BACK_S = 0.05
"""Before a batch is sent again that was answered 503: what is measured is the proxy, not an exporter's patience."""


def post_all(port: int, bodies: Iterable[Body], *, patience_s: float = 60.0) -> int:
    """Post every body to the OTLP port and return the number of their spans.

    Raises LoadError where one is not answered with 200, or for so long with 503.
    """
    todo, lock = iter(bodies), threading.Lock()
    sent: list[int] = []
    problems: list[str] = []

    def take() -> Iterator[Body]:
        while not problems:
            with lock:
                body = next(todo, None)
            if body is None:
                return
            yield body

    def export() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            for body in take():
                _post(connection, body, time.monotonic() + patience_s)
                sent.append(body.spans)
        except (OSError, http.client.HTTPException, LoadError) as error:
            problems.append(str(error) or repr(error))
        finally:
            connection.close()

    exporters = [threading.Thread(target=export) for _ in range(CONNECTIONS)]
    for exporter in exporters:
        exporter.start()
    for exporter in exporters:
        exporter.join()
    if problems:
        raise LoadError(problems[0])
    return sum(sent)


def _post(connection: http.client.HTTPConnection, body: Body, give_up: float) -> None:
    while True:
        connection.request("POST", "/v1/traces", body.content, body.headers)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status == 200:
            return
        if answer.status != 503 or time.monotonic() > give_up:
            raise LoadError(f"POST /v1/traces was answered {answer.status}: {said[:200]!r}")
        time.sleep(_COME_BACK_S)


def wait_until_taken(proxy: Running, spans: int, timeout_s: float = 120.0) -> None:
    """Wait until so many spans have been read since the start. Raises LoadError where that takes too long."""
    give_up = time.monotonic() + timeout_s
    while (taken := proxy.counter("spans")) < spans:
        if time.monotonic() > give_up:
            raise LoadError(f"the proxy has read {taken} of {spans} spans in {timeout_s:g} s")
        time.sleep(_POLL_S)
