"""What a real browser makes of the events: all of them once, across a restart of the gateway."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.sse.test_sink import SINK, Serving
from tests.dashboard.browser import browser, chromium
from tests.helpers import PATIENCE_S, wait_until

WATCH = """url => {
    window.seen = [];
    window.opened = 0;
    const source = new EventSource(url);
    source.onopen = () => { window.opened += 1; };
    source.addEventListener("price", event => window.seen.push(event.data));
}"""


@pytest.mark.skipif(chromium() is None, reason="there is no Chromium")
def test_a_browser_gets_every_event_once_across_a_restart(tmp_path: Path) -> None:
    sink = replace(SINK, origins=("*",), event="price")
    serving = Serving(tmp_path, sink)
    host, port = serving.address
    with browser() as started:
        page = started.new_page()
        page.evaluate(WATCH, f"http://{host}:{port}/prices")

        def wait_for(condition: str) -> None:
            page.wait_for_function(condition, timeout=1000 * PATIENCE_S)

        wait_for("window.opened == 1")
        serving.publish(b"one", b"two\nlines")
        wait_for("window.seen.length == 2")
        serving.stop()
        serving = Serving(tmp_path, replace(sink, port=port), batches=1)
        serving.publish_and_wait("drei €".encode())
        wait_for("window.seen.length == 3")
        seen: Any = page.evaluate("window.seen")
    assert seen == ["one", "two\nlines", "drei €"]
    wait_until(lambda: serving.server._viewers.count == 0, "the browser's end")
    serving.stop()
