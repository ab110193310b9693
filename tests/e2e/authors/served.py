"""Serves an agent of extension/docs/bridges.md as its author has it: `served.py SCRIPT SIDE`, with a scripted model.

`SCRIPT` names the module with the model, `SIDE` is `-` for the agent before the extension, `+` for the one after.
Prints `listening on URL` and serves until it is ended.
"""

from __future__ import annotations

import importlib
import re
import socket
import sys
import warnings
from pathlib import Path

import uvicorn

PROGRAM = Path(__file__)
PAGE = Path(__file__).parents[3] / "extension/docs/bridges.md"


def source(word: str, mark: str) -> str:
    """One side of the page's diff with `word` in it."""
    (diff,) = [diff for diff in re.findall(r"```diff\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL) if word in diff]
    return "".join(line[1:] + "\n" for line in diff.splitlines() if line[:1] in (" ", mark, ""))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # frameworks call their A2A support experimental
    script = importlib.import_module(sys.argv[1])
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    port = listener.getsockname()[1]
    names = {"__name__": "agent", "model": script.model}
    exec(source(script.WORD, sys.argv[2]).replace("9999", str(port)), names)
    print(f"listening on http://127.0.0.1:{port}", flush=True)
    uvicorn.Server(uvicorn.Config(names["app"], log_config=None)).run(sockets=[listener])
