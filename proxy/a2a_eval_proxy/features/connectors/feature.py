from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from ...feature import Feature


def _serving(*how: Any) -> AbstractAsyncContextManager[Any]:
    from .server import serving

    return serving(*how)


FEATURE = Feature(agents={"python": _serving, "openai": _serving})
