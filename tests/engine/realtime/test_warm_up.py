"""A warm-up that fails is reported, and no reason not to start."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from structlog.testing import capture_logs

from wallaroo.engine.realtime import warm_up


def test_a_warm_up_that_fails_is_reported_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_given: Any) -> None:
        msg = "executors have gone"
        raise RuntimeError(msg)

    monkeypatch.setattr(warm_up, "run_import", fails)
    session = MagicMock()
    session.conf.get.return_value = "WARN"
    path = session._jvm.org.apache.hadoop.fs.Path.return_value
    files = path.getFileSystem.return_value
    files.exists.side_effect = [True, False]  # a task that is being killed has made it once more
    monkeypatch.setattr(warm_up, "_KILLED_S", 0.0)
    with capture_logs() as logs:
        warm_up.warm_up(session, 2, tmp_path)
    assert [(log["event"], log["reason"]) for log in logs] == [
        ("not warmed up", "executors have gone")
    ]
    ((removed,), _) = session._jvm.org.apache.hadoop.fs.Path.call_args
    assert removed.startswith(f"{tmp_path}/warm-up-")
    assert files.delete.call_args_list == 2 * [((path, True),)]
    assert [call.args for call in session.sparkContext.setLogLevel.call_args_list] == [
        ("OFF",),
        ("WARN",),
    ]
