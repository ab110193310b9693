"""The proxy as users run it: a `serve` process, its admin API, and the turns it captured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

import httpx
from support.prefork import COMMAND
from support.processes import ChildProcess

READY = (
    r"ready: proxy (?P<proxy>https?://\S+) -> "
    r"(agent (?P<agent>(https?|grpcs?)://[^\s,]+)|\d+ agents? at /agents/NAME: [^,]+), "
    r"admin (?P<admin>http://[^\s,]+), "
    r"(traces (?P<traces>http://[^\s,]+), )?(gRPC (?P<grpc>[^\s,]+), )?"
)
FLUSH_TIMEOUT_S = 60

Turn = dict[str, Any]


class Proxy(ChildProcess):
    """`a2a-eval-proxy serve` in front of `upstream`, or of several as in `--agents`, on free ports.

    `url` is where clients go, `admin_url` the admin port, `otlp_url` where exporters go: None without `telemetry`,
    `grpc_address` where clients go over gRPC: None without `--grpc`.
    `command` starts the program.
    """

    def __init__(
        self,
        upstream: str,
        store: Path,
        *arguments: str,
        telemetry: bool = False,
        command: Sequence[str | Path] = (COMMAND,),
        config: bool = False,
    ) -> None:
        """`config`: `upstream` is a file of settings."""
        self.store = store
        super().__init__(
            [
                *command,
                "serve",
                *("--config" if config else "--agents" if "=" in upstream else "--upstream", upstream),
                *("--listen", "127.0.0.1:0"),
                *("--admin", "127.0.0.1:0"),
                *(("--otlp", "127.0.0.1:0") if telemetry else ("--no-otlp",)),
                *("--store", store),
                *arguments,
            ],
            cwd=store.parent,
        )

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            ready = self.wait_for(READY)
        except BaseException:
            self.stop()
            raise
        self.url = ready["proxy"]
        self.otlp_url, self.admin_url, self.grpc_address = ready["traces"], ready["admin"], ready["grpc"]
        self._admin = httpx.Client(base_url=ready["admin"], timeout=90, trust_env=False)
        return self

    def __exit__(self, *ended: Any) -> None:
        self._admin.close()
        super().__exit__(*ended)

    @property
    def process_id(self) -> int:
        return self.process.pid

    def readiness(self) -> int:
        """What /readyz answers now."""
        return self._admin.get("/readyz").status_code

    def flush(self) -> None:
        """Waits until every turn captured so far is done."""
        response = self._admin.post("/api/flush", params={"timeout": FLUSH_TIMEOUT_S})
        assert response.is_success, f"flush answered {response.status_code}: {response.text}"

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of an admin path."""
        return json.loads(self.get_text(path, **query))

    def get_text(self, path: str, **query: Any) -> str:
        """The body of an admin path."""
        response = self._admin.get(path, params=query)
        assert response.is_success, f"{path} answered {response.status_code}: {response.text}"
        return response.text

    def turns(self, **query: Any) -> list[Turn]:
        """All stored turns that match, as they began: agents and tasks are stored independently of each other."""
        found: list[Turn] = []
        while True:
            page = self.get("/api/turns", **query)
            found += page["items"]
            if page["next_cursor"] is None:
                return sorted(found, key=itemgetter("started_at"))
            query["cursor"] = page["next_cursor"]

    def turn_of(self, user_text: str) -> Turn:
        """The one turn in which the user said that, once it is done."""
        self.flush()
        found = [turn for turn in self.turns(q=user_text[:200]) if turn["user_text"] == user_text]
        assert len(found) == 1, f"{len(found)} turns for {user_text[:80]!r}"
        assert found[0]["status"] == "done", found[0]["status"]
        return found[0]
