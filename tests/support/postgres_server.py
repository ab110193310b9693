"""A real PostgreSQL for tests: a cluster in a temporary folder, on a free port of the loopback and on a socket."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from urllib.parse import quote

import psycopg
from a2a_eval_proxy.store import open_store
from support.patience import PATIENCE_S
from support.ports import held_ports

PASSWORD = "open sesame: 100%"
"""One that has to be quoted in a URL."""

_SETTINGS = {
    "autovacuum": "off",  # the hundreds of databases are small, and short-lived
    "fsync": "off",  # a machine that loses power is not what is tested
    "full_page_writes": "off",
    "max_connections": "100",
    "shared_buffers": "64MB",
}
_KNOWS_STRATEGIES = 150000
"""The first version of PostgreSQL that can copy the files of a template, rather than write them to its log."""

_OVERLOOKED_AFTER_S = 10  # those that it knows, it kills after 5 s


def programs() -> Path | None:
    """The folder of initdb and postgres, of the newest version there is."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return versions[-1].parent if versions else None


def why_not() -> str | None:
    """Why no server can be started here; None where one can."""
    if programs() is None:
        return "no PostgreSQL server here: install the Debian package postgresql"
    users = {user.pw_name for user in pwd.getpwall()}
    if os.geteuid() == 0 and ("postgres" not in users or shutil.which("setpriv") is None):
        return "PostgreSQL does not run as root, and there is no user postgres (or no setpriv) to run it as"
    return None


class PostgresServer:
    """A running cluster. `stop` and `start` take it away and bring it back, with what it holds."""

    def __init__(self, folder: Path, port: int) -> None:
        self._bin = programs() or Path()
        self._folder = folder
        self._data = folder / "data"
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._store: str | None = None
        self.port = port
        password = folder / "password"
        password.write_text(PASSWORD)
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            for path in (folder, password):
                os.chown(path, user.pw_uid, user.pw_gid)
        options = f"-U tester -A scram-sha-256 --pwfile={password} -E UTF8 --locale=C --no-sync".split()
        command = [str(self._bin / "initdb"), "-D", str(self._data), *options]
        subprocess.run(self._as_user(command), capture_output=True, check=True)
        password.unlink()

    def url(self, database: str, *, password: str = PASSWORD) -> str:
        return f"postgresql://tester:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The URL of an empty database."""
        return self._copy_of("template1")

    def new_store(self) -> str:
        """The URL of an empty store: a copy, which is quicker than to make its tables."""
        if self._store is None:
            url = self.new_database()
            open_store(url).close()
            self._store = url.rpartition("/")[2]
        return self._copy_of(self._store)

    def _copy_of(self, template: str) -> str:
        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            how = "STRATEGY file_copy" if connection.info.server_version >= _KNOWS_STRATEGIES else ""
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" {how}')
        return self.url(name)

    def start(self) -> None:
        """Start it, and wait until it lets clients in."""
        settings = {**_SETTINGS, "listen_addresses": "127.0.0.1", "port": str(self.port)}
        settings["unix_socket_directories"] = str(self._folder)
        flags = [f"--{name}={value}" for name, value in settings.items()]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._as_user([str(self._bin / "postgres"), "-D", str(self._data), *flags]), stdout=log, stderr=log
            )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise RuntimeError((self._folder / "log").read_text("utf-8", "replace")) from None
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """Stop it at once: every connection breaks, what was committed stays.

        PostgreSQL 15 may overlook a process that it starts while the signal comes, and waits for that one for ever.
        """
        if self._process is None:
            return
        self._process.send_signal(signal.SIGQUIT)
        try:
            self._process.wait(_OVERLOOKED_AFTER_S)
        except subprocess.TimeoutExpired:
            for child in Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split():
                with suppress(ProcessLookupError):  # it has ended since
                    os.kill(int(child), signal.SIGKILL)
            self._process.wait(PATIENCE_S)
        self._process = None

    def _as_user(self, command: Sequence[str]) -> list[str]:
        if os.geteuid() != 0:
            return list(command)
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--", *command]


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A server for the time of the block."""
    folder = Path(tempfile.mkdtemp(prefix="a2a-eval-proxy-pg-"))  # pytest has folders of its user alone
    try:
        with held_ports(1) as (port,):
            server = PostgresServer(folder, port)
            try:
                server.start()
                yield server
            finally:
                server.stop()
    finally:
        shutil.rmtree(folder)
