"""What a process keeps for the tasks of a job."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers import LARGE
from wallaroo.engine.microbatch import job as module
from wallaroo.engine.microbatch.job import Job, Readers, worker_context
from wallaroo.model.loader import ApplicationRef

APPLICATION = ApplicationRef(str(LARGE), ("--in", "127.0.0.1:0", "--out", "127.0.0.1:9"))


def test_entities_may_take_what_the_job_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("capture_worker_logs", "note_connections"):
        monkeypatch.setattr(module, name, lambda *_arguments, **_options: None)
    connect: Any = SimpleNamespace
    job = Job(
        *("run", APPLICATION, connect, 8, (), Readers("")),
        checkpoint=tmp_path,
        entity_limit_bytes=7,
    )
    context = worker_context(job, lambda reference: reference)
    assert [cache.limit_bytes for cache in context.caches] == [7]
