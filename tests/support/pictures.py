"""`make pictures`: the pictures in the documents, of the demo's run, made by the browser of the tests."""

from __future__ import annotations

import asyncio
import io
import tempfile
from pathlib import Path
from typing import Any

from a2a_eval_proxy.features.demo.story import tell
from a2a_eval_proxy.features.pages.store_pages import store_pages
from rich.console import Console
from support.chromium import chromium, screenshot, tab
from support.patience import PATIENCE_S

_FOLDER = Path(__file__).parents[2] / "proxy/docs/pictures"
PICTURE = _FOLDER / "report.png"
PAGES_PICTURE = _FOLDER / "pages.png"
_END = "return document.querySelector('.turn .results').getBoundingClientRect().top + scrollY - 44"


def picture_of(address: str, session: Any, path: Path, ready: str, height: str) -> None:
    """Write a picture of a page, once it has what the selector `ready` names; `height` is a script that returns it."""
    from selenium.webdriver.support.ui import WebDriverWait

    with tab(session, width=1040) as opened:
        opened.get(address)
        WebDriverWait(opened, PATIENCE_S).until(lambda page: page.find_elements("css selector", ready))
        screenshot(opened, path, opened.execute_script(height))


def main() -> None:
    """Run the demo; write the picture of its report, and that of the pages over its store."""
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        asyncio.run(tell(False, console=Console(file=io.StringIO())))
        (report,) = Path(folder).glob("*/report/report.html")
        with chromium(Path(folder)) as session:
            picture_of(report.as_uri(), session, PICTURE, ".turn", _END)
            asyncio.run(_pages(report, session))


async def _pages(report: Path, session: Any) -> None:
    """The pages over the store of the demo."""
    async with store_pages(str(report.parents[1] / "turns.db"), 0) as (link, _):
        ready = "html[data-ready]"
        await asyncio.to_thread(picture_of, link, session, PAGES_PICTURE, ready, "return 620")


if __name__ == "__main__":
    main()
