"""Pages that watch a proxy, without a browser: they send what the script of the list of turns sends."""

from __future__ import annotations

import asyncio
import html
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from a2a_eval_proxy.threads import LoopThread

_COUNT = re.compile(rb'"count":(\d+)')


def rest_after(news: int) -> float:
    """Seconds between two fetches, by the number of events meanwhile: `restAfter` in ui/assets/live.js."""
    return 2.0 if news > 1000 else 1.0 if news > 50 else 0.5 if news > 5 else 0.08


@dataclass
class Page:
    """One list of turns: a stream of live events, and its fragments as often as the script fetches them."""

    host: str
    port: int
    events: int = 0
    fetches: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def watch(self, listening: asyncio.Event) -> None:
        """Until it is cancelled; sets `listening` once the proxy sends events."""
        found = re.search(r'data-events="([^"]+)"', (await self._get("/")).decode())
        if found is None:
            raise LookupError("the list of turns names no live events")
        reader, writer = await self._request("/" + html.unescape(found[1]).removeprefix("./"))
        try:
            await reader.readuntil(b": listening")
            fetching = asyncio.create_task(self._fetch())
            listening.set()
            try:
                while piece := await reader.read(1 << 20):
                    self.events += sum(map(int, _COUNT.findall(piece)))
                    self._news.set()
            finally:
                fetching.cancel()
        finally:
            writer.close()

    async def _fetch(self) -> None:
        shown = 0
        while True:
            await self._news.wait()
            self._news.clear()
            news, shown = self.events - shown, self.events
            await self._get("/?fragment=head,list")
            self.fetches += 1
            await asyncio.sleep(rest_after(news))

    async def _get(self, target: str) -> bytes:
        reader, writer = await self._request(target, b"connection: close\r\n")
        try:
            return await reader.read()
        finally:
            writer.close()

    async def _request(self, target: str, header: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self.host, self.port)
        writer.write(b"GET %b HTTP/1.1\r\nhost: %b\r\n%b\r\n" % (target.encode(), self.host.encode(), header))
        return reader, writer


@contextmanager
def watching(admin_url: str, pages: int, cpus: set[int]) -> Iterator[list[Page]]:
    """That many pages watch the proxy, from a thread on `cpus`."""
    loop = LoopThread("pages")
    at = urlsplit(admin_url)
    tasks: list[asyncio.Task[None]] = []

    async def begin() -> list[Page]:
        os.sched_setaffinity(0, cpus)  # this thread's
        opened = [Page(at.hostname or "", at.port or 0) for _ in range(pages)]
        for page in opened:
            listening = asyncio.Event()
            tasks.append(asyncio.create_task(page.watch(listening)))
            ready = asyncio.create_task(listening.wait())
            await asyncio.wait([tasks[-1], ready], return_when=asyncio.FIRST_COMPLETED)
            if tasks[-1].done():
                tasks[-1].result()
        return opened

    async def end() -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    try:
        yield loop.run(begin())
    finally:
        loop.run(end())
        loop.close()
