"""Random trees of agents with an oracle: `make trees`, or `make trees ARGS="--conversations 500 --proxies 3"`.

Agents of a2a-sdk ask each other through proxies, with OpenTelemetry's trace context, by an id of a task, or by nothing.
Afterwards every tree is held against who asked whom. Exit code 0 where each edge by trace context or reference is
certain and right, and no certain edge is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ["OTEL_INSTRUMENTATION_A2A_SDK_ENABLED"] = "false"  # spans that nobody reads

from .plan import conversations
from .run import soak


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make trees", description="Random trees of agents with an oracle.")
    parser.add_argument("--conversations", type=int, default=500, help="at the same time; default 500")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of what users ask")
    parser.add_argument("--proxies", type=int, default=1, help="on one PostgreSQL; each agent has one of them")
    options = parser.parse_args(arguments)
    logging.disable()  # agents of a2a-sdk say a lot about those that break
    print(f"seed {options.seed}", flush=True)
    planned = list(conversations(options.seed, options.conversations, traced_users=options.proxies > 1))
    with TemporaryDirectory() as folder:
        outcome = asyncio.run(soak(planned, options.proxies, Path(folder), options.seed))
    for (how, drawn), count in sorted(outcome.edges.items()):
        print(f"{how}: {count} edges {drawn}")
    print(f"{outcome.turns} turns", *outcome.problems[:25], sep="\n")
    return bool(outcome.problems)


if __name__ == "__main__":
    sys.exit(main())
