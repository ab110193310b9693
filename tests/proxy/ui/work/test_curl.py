"""A request of the wire as a command that a shell can run."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from a2a_eval_proxy.features.pages.turn_page import curl_command
from support.patience import PATIENCE_S


def request(**fields: Any) -> dict[str, Any]:
    body = {"bytes": 11, "text": 'it\'s {"a":1}\n'}
    headers = [["host", "agent"], ["authorization", "***"], ["a2a-version", "1.0"], ["traceparent", "00-1"]]
    return {"method": "POST", "target": "/agent/v1?x=1&y=2", "headers": headers, "body": body, **fields}


def test_the_command_goes_to_the_proxy_and_has_placeholders_for_credentials() -> None:
    command = curl_command(request(), "http://127.0.0.1:8080", "http://agent:9999/agent/")
    assert shlex.split(command) == [
        *("curl", "-sS", "-N", "-g", "--path-as-is", "-X", "POST", "http://127.0.0.1:8080/v1?x=1&y=2"),
        *("-H", "authorization: YOUR-AUTHORIZATION", "-H", "a2a-version: 1.0"),
        *("-H", "accept:", "-H", "content-type:"),  # curl adds none of its own
        *("--data-raw", 'it\'s {"a":1}\n'),
    ]


def test_a_body_that_is_not_whole_text_is_a_file() -> None:
    for body in (
        {"bytes": 3, "base64": "//4="},
        {"bytes": 3, "text": "abc", "cut": True},
        {"bytes": 3, "withheld": "x"},
        {"bytes": 3, "text": "a\0b"},  # no argument of a command can contain it
        {"bytes": 3, "text": "a\x1bb"},  # no page shows it
    ):
        words = shlex.split(curl_command(request(body=body), "http://proxy", "http://agent"))
        assert words[-2:] == ["--data-binary", "@request-body"]
    assert "--data" not in curl_command(request(body={"bytes": 0, "text": ""}), "http://proxy", "http://agent")


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_the_command_repeats_the_request_and_reads_no_file_that_its_body_names(tmp_path: Path) -> None:
    """As the shell runs it: a client chose every character of the target, the headers and the body."""
    received: list[tuple[str, dict[str, str], bytes]] = []

    class Received(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            received.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: object) -> None: ...

    (tmp_path / "secret").write_text("read")
    target = "/a/../b?c={1,2}&d=[1-3]&e=$(id)"
    headers = [["x-a", 'it\'s "$HOME" `id` \\'], ["x-empty", ""], ["content-type", "text/x"]]
    bodies = ["@secret", "@-", "$(id) `id` \\n 'it' \"is\" !!\n\n\tä…\n", "%41&a=b", " "]
    with ThreadingHTTPServer(("127.0.0.1", 0), Received) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        for text in bodies:
            asked = {"target": target, "headers": headers, "body": {"bytes": len(text.encode()), "text": text}}
            command = curl_command({"method": "PUT", **asked}, f"http://127.0.0.1:{server.server_port}", "http://agent")
            run = ["sh", "-ec", command]
            subprocess.run(run, check=True, cwd=tmp_path, env={**os.environ, "no_proxy": "*"}, timeout=PATIENCE_S)
        server.shutdown()
    assert [body.decode() for _, _, body in received] == bodies
    assert {path for path, _, _ in received} == {target}
    for _, sent, _ in received:
        assert [[name, sent.get(name)] for name, _ in headers] == headers
        assert "accept" not in sent
