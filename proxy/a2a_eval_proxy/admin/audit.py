"""The audit log: one line for each change over the admin port, and each login. It has no content and no secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import MutableMapping
from typing import Any

from starlette.requests import Request

from .trusted_proxies import User

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)  # it is written whatever `log_level` is

_FACTS = "a2a_eval_proxy.audit"
_MAX_VALUE = 300


def note(request: Request, **facts: str | int) -> None:
    """What the change is, beyond method and path: of which case, in which file. Never texts of people or agents."""
    request.scope.setdefault(_FACTS, {}).update(facts)


def log(scope: MutableMapping[str, Any], status: int, user: User, peer: str) -> None:
    """Write the line of a request of `user` at the address `peer` that was answered with `status`.

    Values are JSON strings in ASCII: whatever a name contains, it stays in its place of its line.
    """
    facts = {
        **({"user": user.name} if user.name else {}),
        "by": user.by,
        "from": peer,
        **({"for": user.forwarded_for} if user.forwarded_for else {}),
        "did": f"{scope['method']} {scope['path']}",  # without the query, which may have a login code
        "status": status,
        **scope.get(_FACTS, {}),
    }
    logger.info("%s", " ".join(f"{name}={_value(value)}" for name, value in facts.items()))


def _value(value: str | int) -> str:
    return json.dumps(value[:_MAX_VALUE] if isinstance(value, str) else value)
