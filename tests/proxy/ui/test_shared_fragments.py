"""Pages at the same address share their fragments, and none of them misses news."""

from __future__ import annotations

import asyncio

import pytest
from a2a_eval_proxy.features.pages import site
from a2a_eval_proxy.features.pages.site import SharedFragments


class Made:
    """Fragments that say which news they know, and stay under way until `go` is set."""

    def __init__(self) -> None:
        self.shared: SharedFragments[str] = SharedFragments()
        self.go = asyncio.Event()
        self.news = "none"
        self.made: list[str] = []

    async def page(self, address: str = "/") -> str:
        return await self.shared.of(address, self._make)

    async def _make(self) -> str:
        news = self.news
        self.made.append(news)
        await self.go.wait()
        if news == "bad":
            raise ValueError("bad news")
        return news


async def begun(made: Made, number: int) -> None:
    while len(made.made) < number:
        await asyncio.sleep(0)


async def test_requests_that_wait_share_and_each_gets_the_news_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "REST_S", 0.0)
    made = Made()
    first = [asyncio.create_task(made.page()) for _ in range(3)]
    await begun(made, 1)
    made.news = "later"
    second = [asyncio.create_task(made.page()) for _ in range(3)]
    await begun(made, 2)
    made.go.set()
    assert await asyncio.gather(*first) == ["none"] * 3
    assert await asyncio.gather(*second) == ["later"] * 3
    assert made.made == ["none", "later"]


async def test_an_address_rests_and_others_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "REST_S", 3600.0)
    made = Made()
    made.go.set()
    assert await made.page() == "none"
    waiting = [asyncio.create_task(made.page()) for _ in range(3)]
    assert await made.page("/turns/1") == "none"
    assert not any(task.done() for task in waiting)
    assert len(made.made) == 2
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_an_error_reaches_all_and_a_page_that_leaves_takes_nothing_from_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(site, "REST_S", 0.0)
    made = Made()
    made.news = "bad"
    pages = [asyncio.create_task(made.page()) for _ in range(3)]
    await begun(made, 1)
    pages.pop(0).cancel()
    made.go.set()
    for page in pages:
        with pytest.raises(ValueError, match="bad news"):
            await page
    made.news = "good"
    assert await made.page() == "good"
    assert caplog.text == ""
