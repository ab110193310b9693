"""How many clients there may be, where the system allows few open files."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.patience import PATIENCE_S

PROGRAM = """
import resource, sys
from a2a_eval_proxy.net.client_limits import connections_possible
soft, hard = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print(connections_possible(1000), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [
        (200, 200, "36 200"),
        (100, 1128, "500 1128"),
        (100, 4000, "1000 2128"),
        (3000, 4000, "1000 3000"),
        (60, 60, "1 60"),
    ],
)
def test_clients_leave_files_for_the_rest(soft: int, hard: int, expected: str) -> None:
    """A limit can only be lowered, so a process of its own takes it."""
    command = [sys.executable, "-c", PROGRAM, str(soft), str(hard)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert run.stdout.strip() == expected, run.stderr
