"""One TLS context for all clients of httpx that ask for none of their own: each takes 20 ms, to read the same file."""

from __future__ import annotations

import os
import ssl
from functools import cache
from typing import Any

import httpx._transports.default as httpx_transport

_create = httpx_transport.create_ssl_context


@cache
def _usual(*environment: str | None) -> ssl.SSLContext:
    return _create(trust_env=any(environment))


def _ssl_context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
    if verify is True and cert is None:
        return _usual(*(trust_env and os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")))
    return _create(verify, cert, trust_env)


def share_ssl_context() -> None:
    """Has the clients of this process, and of those forked from it, share the context, which exists from now on."""
    httpx_transport.create_ssl_context = _ssl_context
    _ssl_context()
