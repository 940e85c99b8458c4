"""A profile of a running application names the functions and the steps that they are."""

from __future__ import annotations

import os
import re
import threading
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.spark.harness import APPS, Receiver, run, send
from wallaroo.cli.main import main

_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        os.geteuid() != 0 and _SCOPE.exists() and _SCOPE.read_text().strip() != "0",
        reason="this user may not trace processes",
    ),
]


def test_a_profile_has_the_functions_by_step(tmp_path: Path) -> None:
    picture = tmp_path / "profile.svg"
    ended = threading.Event()
    with (
        Receiver("lines") as receiver,
        run(APPS / "word_count", receiver, tmp_path / "s") as running,
    ):
        (source,) = running.sources.values()

        def feed() -> None:
            while not ended.is_set():
                send(source, [b"the quick brown fox jumps over the lazy dog " * 4] * 5_000)
                running.wait_until_processed()

        feeding = threading.Thread(target=feed)
        feeding.start()
        receiver.wait_for(1)
        url = running.wait_for_event("ready", 0)["dashboard"]
        done = CliRunner().invoke(
            main, ["profile", url, "--seconds", "6", "--output", str(picture)]
        )
        ended.set()
        feeding.join()
    assert done.exit_code == 0, done.output
    assert "% step Split and Count · split into words" in done.output.replace("  ", " ")
    titles = [
        element.text or "" for element in ET.parse(picture).iter() if element.tag.endswith("title")
    ]
    assert any(re.match(r"split \(application\.py:\d+\): ", title) for title in titles)
