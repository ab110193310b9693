"""A worker ends in time though its database accepts connections and answers nothing any more."""

from __future__ import annotations

import socket
import threading

from support.postgres_server import PostgresServer
from support.prefork import COMMAND
from support.processes import ChildProcess


class Relay:
    """Passes bytes between clients and a server until it is `frozen`; then connections stay open and nothing passes."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.frozen = threading.Event()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in (self._listener, *self._open):
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            self._open.append(client)
            if self.frozen.is_set():
                continue
            server = socket.create_connection(("127.0.0.1", self._target))
            self._open.append(server)
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while (data := source.recv(65536)) and not self.frozen.is_set():
                target.sendall(data)
        except OSError:
            pass
        if not self.frozen.is_set():
            target.close()


def test_a_database_that_stops_answering_does_not_hold_up_the_end(postgres: PostgresServer) -> None:
    relay = Relay(postgres.port)
    url = postgres.new_store().replace(f":{postgres.port}/", f":{relay.port}/")
    with ChildProcess([COMMAND, "worker", "--store", url, "--timeouts", "shutdown=1"]) as worker:
        assert "ready" in worker.read_line()
        relay.frozen.set()
        worker.terminate()
        assert worker.wait(50) == 0  # the database would be given up after 60 s
        told = worker.stderr()
        assert "worker stopped: 0 turns scored" in told
        assert "Traceback" not in told
    relay.close()
