"""The recordings in wire/: as requests to send and as answers to replay."""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agents.replay_agent import Answer
from agents.scenarios import URI

WIRE = Path(__file__).parents[1] / "e2e/wire"
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?")
RECORDED_AT = "127.0.0.1:9100"
EXTENSION_HEADERS = ("a2a-extensions", "x-a2a-extensions")


@dataclass(frozen=True)
class Recording:
    """One recorded exchange. `text` is its file's content, so that ids can be exchanged consistently."""

    name: str
    text: str

    @classmethod
    def load(cls, name: str) -> Recording:
        return cls(name, (WIRE / f"{name}.json").read_text())

    def renewed(self) -> Recording:
        """The same exchange about another task: every id replaced by a new one of the same length."""
        new: dict[str, str] = {}
        return Recording(self.name, UUID.sub(lambda found: new.setdefault(found[0], str(uuid.uuid4())), self.text))

    @cached_property
    def _data(self) -> Any:
        return json.loads(self.text)

    @property
    def request_line(self) -> str:
        head: str = self._data["request"]["head"]
        return head.split("\r\n", 1)[0]

    def request_headers(self, *, asking: bool) -> list[tuple[str, str]]:
        """As sent, without Host and Content-Length; asking for the extension, or not, whatever was recorded."""
        lines = self._data["request"]["head"].split("\r\n")[1:]
        fields = [line.split(": ", 1) for line in lines if line]
        dropped = {"host", "content-length", *EXTENSION_HEADERS}
        headers = [(name, value) for name, value in fields if name.lower() not in dropped]
        if asking:
            versioned = any(name == "A2A-Version" for name, _ in headers)
            headers.append(("A2A-Extensions" if versioned else "X-A2A-Extensions", URI))
        return headers

    @property
    def request_body(self) -> bytes:
        return str(self._data["request"]["body"]).encode()

    @property
    def streams(self) -> bool:
        return bool(self._data["response"]["chunks"])

    @property
    def chunks(self) -> list[bytes]:
        """Payloads of the chunks of a streamed answer."""
        return [chunk["text"].encode() for chunk in self._data["response"]["chunks"]]

    @property
    def response_body(self) -> bytes:
        response = self._data["response"]
        return b"".join(self.chunks) if response["chunks"] else str(response["body"]).encode()

    def answer(self, *, paced: bool = False) -> Answer:
        """The response as it went over the wire: status line, headers and framing included."""
        response = self._data["response"]
        lines = [response["status_line"], *(f"{name}: {value}" for name, value in response["headers"])]
        head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
        if not self.streams:
            return Answer([head + self.response_body])
        framed = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in self.chunks]
        return Answer([head + framed[0], *framed[1:], b"0\r\n\r\n"], paced=paced)


def names(pattern: str = "*") -> list[str]:
    """Names of the recordings that match a glob pattern, sorted."""
    return sorted(path.stem for path in WIRE.glob(f"{pattern}.json"))


DOCUMENT = re.compile(r"^((?:data: ?)?)([\[{].*?)(\r?)$", re.MULTILINE)


def respelt(text: str) -> str:
    """JSON documents, and the data of events, in one spelling: equal values become equal texts."""

    def written(found: re.Match[str]) -> str:
        return found[1] + json.dumps(json.loads(found[2]), sort_keys=True, separators=(",", ":")) + found[3]

    return DOCUMENT.sub(written, text)


def anonymous(text: str) -> str:
    """Ids numbered by first appearance and times blanked: equal shapes become equal texts."""
    numbers: dict[str, str] = {}
    text = UUID.sub(lambda found: numbers.setdefault(found[0], f"id-{len(numbers) + 1}"), text)
    return TIME.sub("time", text)
