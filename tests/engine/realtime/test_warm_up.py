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
    with capture_logs() as logs:
        warm_up.warm_up(session, 2, tmp_path)
    assert [(log["event"], log["reason"]) for log in logs] == [
        ("not warmed up", "executors have gone")
    ]
    ((removed,), _) = session._jvm.org.apache.hadoop.fs.Path.call_args
    assert removed.startswith(f"{tmp_path}/warm-up-")
    assert [call.args for call in session.sparkContext.setLogLevel.call_args_list] == [
        ("OFF",),
        ("WARN",),
    ]
