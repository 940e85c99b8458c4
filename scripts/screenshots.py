"""The picture of the dashboard in the documentation: runs Market Spread under a steady stream.

Needs a Chromium on the PATH. Writes docs/dashboard.png.
"""

from __future__ import annotations

import socket
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.streams import market_data, orders, symbols  # noqa: E402
from playwright.sync_api import Browser  # noqa: E402
from tests.dashboard.browser import browser, chromium  # noqa: E402
from tests.spark.harness import APPS, Receiver, run  # noqa: E402

_STREAM_S = 60.0
"""Seconds of stream before the picture: the curves have to show something."""
_LOT = 200
"""Messages sent at a time."""


def main() -> None:
    """Make the picture."""
    if chromium() is None:
        sys.exit("screenshots: there is no chromium on the PATH; on Debian, apt install chromium")
    listed = symbols()
    streams = (orders(listed, 20_000, 7)[0], market_data(listed, 20_000, 7))
    ended = threading.Event()
    with (
        tempfile.TemporaryDirectory() as state,
        Receiver("frames") as receiver,
        run(APPS / "market_spread", receiver, Path(state), 2) as running,
    ):
        for address, data in zip(running.sources.values(), streams, strict=True):
            host, port = address.rsplit(":", 1)
            with socket.create_connection((host, int(port))) as warming_up:
                warming_up.sendall(data)
        running.wait_until_processed()
        for address, data in zip(running.sources.values(), streams, strict=True):
            threading.Thread(target=_send, args=(address, data, ended), daemon=True).start()
        with browser() as chrome:
            _picture(chrome, running.wait_for_event("ready", 0)["dashboard"])
        ended.set()
        running.stop()


def _send(address: str, data: bytes, ended: threading.Event) -> None:
    """Send the messages of *data*, again and again; a bad one now and then."""
    host, port = address.rsplit(":", 1)
    size = 4 + struct.unpack_from(">I", data)[0]
    bad = struct.pack(">I", 9) + b"malformed"
    with socket.create_connection((host, int(port))) as connection:
        while True:
            for start in range(0, len(data), _LOT * size):
                if ended.wait(0.1):
                    return
                connection.sendall(data[start : start + _LOT * size])
            connection.sendall(bad)


def _picture(chrome: Browser, url: str) -> None:
    page = chrome.new_page(viewport={"width": 1360, "height": 900}, color_scheme="light")
    page.goto(url)
    page.locator("#publications tbody tr").first.wait_for()
    page.get_by_label("key", exact=True).fill(page.locator("#keys code").first.inner_text())
    page.get_by_role("button", name="Look up").click()
    page.locator("#state-entities pre").wait_for(timeout=60_000)
    time.sleep(_STREAM_S)
    page.screenshot(path=ROOT / "docs" / "dashboard.png", full_page=True)


if __name__ == "__main__":
    main()
