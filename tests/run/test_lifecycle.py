"""What the runs on one machine and on a cluster share: parts start, and stop in reverse order."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture, capture_logs

from tests.helpers import WORD_COUNT
from wallaroo.loading.loader import ApplicationRef
from wallaroo.run import lifecycle
from wallaroo.run.lifecycle import Lifecycle
from wallaroo.run.settings import DashboardSettings
from wallaroo.wire.chunk_messages import News

_NO_SPARK_BEFORE_JAVA = """
import sys
from wallaroo.cli.main import main
from wallaroo.engine.spark.java import Java

def start(*_):
    loaded = {"pyspark", "numpy", "wallaroo.gateway.server", "wallaroo.run.local"} & {*sys.modules}
    print(sorted(loaded), file=sys.stderr)
    sys.exit(7)

Java.__init__ = start
main()
"""
_JAVA_IN_VAIN = """
from wallaroo.cli.main import main
from wallaroo.engine.spark.java import Java

Java.__init__ = lambda *_: print("started")
Java.discard = lambda _: print("discarded")
main()
"""


class Parts(Lifecycle):
    """Two parts, the second of which fails to stop."""

    def __init__(self, *, interrupted: bool = False) -> None:
        super().__init__(DashboardSettings())
        self.events: list[str] = []
        self._interrupted = interrupted

    def _start(self) -> dict[str, Any]:
        self._stack.callback(self.events.append, "first stopped")
        if self._interrupted:
            signal.raise_signal(signal.SIGTERM)
        self._stack.callback(self._fail)
        self._stopped = {}
        return {"parts": 2}

    def _fail(self) -> None:
        self.events.append("second failed")
        raise OSError

    def _on_published(self, news: News) -> None: ...


def test_a_part_that_fails_to_stop_does_not_keep_the_others_running() -> None:
    before = signal.getsignal(signal.SIGTERM)
    parts = Parts()
    with capture_logs() as logged, pytest.raises(OSError), parts:  # noqa: PT011
        assert parts.start()
    assert parts.events == ["second failed", "first stopped"]
    ready = {"event": "ready", "parts": 2, "log_level": "info"}
    told = [event for event in logged if event["log_level"] == "info"]
    assert told == [ready]  # it has not stopped in good order
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_start_that_a_signal_interrupts_stops_what_has_started() -> None:
    with capture_logs() as logged, Parts(interrupted=True) as parts:
        assert not parts.start()
    assert parts.events == ["first stopped"]
    assert logged[-1] == {"event": "stopped", "during": "start", "log_level": "info"}


def test_a_signal_as_soon_as_ready_is_logged_does_not_break_off_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class SignalsOnce:
        def info(self, event: str, **_fields: object) -> None:
            if event == "ready":
                signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(lifecycle, "log", SignalsOnce())
    with contextlib.suppress(OSError), Parts() as parts:
        assert parts.start()


def test_a_hint_is_logged_once_also_if_the_application_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged, every_level = LogCapture(), structlog.make_filtering_bound_logger(0)
    own = structlog.wrap_logger(None, processors=[logged], wrapper_class=every_level)
    monkeypatch.setattr(lifecycle, "log", own)  # whatever tests before have configured
    (tmp_path / "silent.py").write_text(
        "import wallaroo\n"
        "@wallaroo.encoder\n"
        "def encode(line):\n"
        "    line.encode()\n"
        "def application_setup(args):\n"
        "    source = wallaroo.FileSourceConfig('lines.txt', bytes.decode, 'lines')\n"
        "    sink = wallaroo.FileSinkConfig('out.txt', encode)\n"
        "    return wallaroo.build_application(\n"
        "        'silent', wallaroo.source('lines', source).to_sink(sink))\n"
    )
    with contextlib.suppress(OSError), Parts() as parts:
        for _ in range(2):
            parts._load(ApplicationRef(str(tmp_path / "silent.py")))
    hint = "silent.py:2: pipeline 'lines': encoder encode: it returns nothing; write return"
    assert [event for event in logged.entries if event["log_level"] == "warning"] == [
        {"event": "this may not be what you mean", "hint": hint, "log_level": "warning"}
    ]


def test_an_application_that_goes_to_another_directory_does_not_take_the_run_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "moving.py").write_text(
        "import os\n"
        "import wallaroo\n"
        "os.chdir('/')\n"
        "def application_setup(args):\n"
        "    source = wallaroo.FileSourceConfig('lines.txt', bytes.decode, 'lines')\n"
        "    sink = wallaroo.FileSinkConfig('out.txt', str.encode)\n"
        "    return wallaroo.build_application(\n"
        "        'moving', wallaroo.source('lines', source).to_sink(sink))\n"
    )
    here = Path.cwd()
    with contextlib.suppress(OSError), Parts() as parts:
        parts._load(ApplicationRef(str(tmp_path / "moving.py")))
    assert Path.cwd() == here


def test_java_that_was_started_ends_if_the_run_cannot_begin(tmp_path: Path) -> None:
    options = ("--ui-token-file", str(tmp_path / "missing"), "--in", "127.0.0.1:0")
    command = [sys.executable, "-c", _JAVA_IN_VAIN, "run", str(WORD_COUNT), *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    assert ended.stdout == "started\ndiscarded\n"


def test_a_driver_and_a_gateway_do_without_numpy() -> None:
    loading = (
        "import sys, wallaroo.run.local, wallaroo.gateway.server; print('numpy' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", loading], capture_output=True, check=True)
    assert printed.stdout == b"False\n"


def test_nothing_large_is_loaded_before_java_starts(tmp_path: Path) -> None:
    addresses = ("--in", "127.0.0.1:0", "--out", "127.0.0.1:1")
    command = [sys.executable, "-c", _NO_SPARK_BEFORE_JAVA, "run", str(WORD_COUNT), *addresses]
    ended = subprocess.run(
        [*command, "--no-ui", "--state-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 7, ended.stderr
    assert ended.stderr.splitlines()[-1] == "[]"
