"""The commands of the page Operations that copy a store and put it back, as they stand there."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from a2a_eval_proxy.store import open_store
from support.kept import Kept, turn

PAGE = Path(__file__).parents[3] / "deploy" / "README.md"


async def test_the_command_for_sqlite_of_the_page_copies_a_store_in_use(tmp_path: Path) -> None:
    if shutil.which("sqlite3") is None:
        pytest.skip("no sqlite3 here: install the Debian package sqlite3")
    [line] = re.findall(r"`(sqlite3 .*?)`", PAGE.read_text("utf-8"))
    with closing(open_store(str(tmp_path / "turns.db"))) as store:
        await Kept(store).add(turn(1), turn(2))
        await asyncio.to_thread(subprocess.run, ["bash", "-ec", line], cwd=tmp_path, check=True)
    with closing(open_store(str(tmp_path / "copy.db"), must_exist=True)) as copy:
        assert await Kept(copy).ids() == ["turn-0001", "turn-0002"]
