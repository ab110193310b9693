"""Serves an agent of extension/docs/frameworks as its author has it: `served.py SCRIPT SIDE`, with a scripted model.

`SCRIPT` names the module with the model, `SIDE` is `-` for the agent before the extension, `+` for the one after.
Prints `listening on URL` and serves until it is ended.
"""

from __future__ import annotations

import importlib
import socket
import sys
import warnings
from pathlib import Path

import uvicorn

PROGRAM = Path(__file__)
sys.path.append(str(PROGRAM.parents[1] / "frameworks"))

from page_code import code_of  # noqa: E402 - beside no package: this program runs with those of its author

if __name__ == "__main__":
    warnings.simplefilter("ignore")  # frameworks call their A2A support experimental
    script = importlib.import_module(sys.argv[1])
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    port = listener.getsockname()[1]
    names = {**vars(script), "__name__": "agent"}
    exec(code_of(script.PAGE, sys.argv[2], script.REPLACED).replace("9999", str(port)), names)
    print(f"listening on http://127.0.0.1:{port}", flush=True)
    uvicorn.Server(uvicorn.Config(names["app"], log_config=None)).run(sockets=[listener])
