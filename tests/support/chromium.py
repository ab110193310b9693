"""A real headless Chromium for tests, driven over WebDriver."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from .running import require_marker

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


@contextmanager
def chromium(folder: Path) -> Iterator[Any]:
    """A WebDriver whose profile is in `folder`; its log keeps what pages complain about.

    Skips the test where Chromium or its driver is not installed; fails it in CI.
    """
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    require_marker("browser")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not browser or not driver:
        message = "needs Chromium and chromedriver (apt: chromium chromium-driver)"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    session = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield session
    finally:
        session.quit()


@contextmanager
def tab(session: Any, width: int = 1280, height: int = 900, *, dark: bool = False) -> Iterator[Any]:
    """The WebDriver with an empty page and such a screen. Nothing of earlier pages is left: no storage, no log.

    A tab of its own for each block would start a process for each.
    """
    for kind in ("browser", "performance"):
        session.get_log(kind)
    session.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": "file://", "storageTypes": "all"})
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    session.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    session.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": [theme]})
    try:
        yield session
    finally:
        session.execute_script("try { sessionStorage.clear(); } catch {}")
        session.get("about:blank")


def screenshot(session: Any, path: Path, most: float = 6000) -> None:
    """The page as an image, to this height in pixels."""
    width, height = session.execute_script(
        "return [document.documentElement.clientWidth, Math.min(arguments[0], document.documentElement.scrollHeight)]",
        most,
    )
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    taken = session.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(base64.b64decode(taken["data"]))


def picture(session: Any, path: Path) -> None:
    """The page as an image for whoever wants to see it, where the variable PICTURES is set: each takes a third of a
    second."""
    if os.environ.get("PICTURES"):
        screenshot(session, path)
