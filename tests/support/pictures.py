"""`make pictures`: the picture of the report in README.md, of the demo's run, made by the browser of the tests."""

from __future__ import annotations

import asyncio
import io
import tempfile
from pathlib import Path
from typing import Any

from a2a_eval_proxy.demo.story import tell
from rich.console import Console
from support.chromium import chromium, screenshot, tab

PICTURE = Path(__file__).parents[2] / "proxy/docs/pictures/report.png"
_LEFT_OUT = "for (const id of ['errors', 'scores', 'tools', 'matrix']) document.getElementById(id).remove()"
_END = "return document.querySelector('.turn .results').getBoundingClientRect().top + scrollY - 44"


def picture_of(report: Path, session: Any, path: Path) -> None:
    """Write a picture of a report in HTML: its summary, and the calls of the first turn that failed."""
    from selenium.webdriver.support.ui import WebDriverWait

    with tab(session, width=1040) as opened:
        opened.get(report.as_uri())
        WebDriverWait(opened, 20).until(lambda page: page.find_elements("class name", "turn"))
        opened.execute_script(_LEFT_OUT)
        screenshot(opened, path, opened.execute_script(_END))


def main() -> None:
    """Run the demo, and write the picture of its report."""
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        asyncio.run(tell(False, console=Console(file=io.StringIO())))
        (report,) = Path(folder).glob("*/report/report.html")
        with chromium(Path(folder)) as session:
            picture_of(report, session, PICTURE)


if __name__ == "__main__":
    main()
