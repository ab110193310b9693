from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from ...feature import Feature


def _fetching(*how: Any) -> AbstractAsyncContextManager[Any]:
    from .fetching import fetching

    return fetching(*how)


FEATURE = Feature(traces=dict.fromkeys(("jaeger", "jaegers", "otlp-file", "tempo", "tempos"), _fetching))
