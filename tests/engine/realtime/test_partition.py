"""What the process of a partition takes from the job of its query."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.helpers import LARGE
from wallaroo.engine.realtime.job import Job
from wallaroo.engine.realtime.partition import Partition
from wallaroo.engine.spark.slots import slots_for
from wallaroo.loading.loader import ApplicationRef
from wallaroo.wire.frame_socket import FrameSocket

APPLICATION = ApplicationRef(str(LARGE), ("--in", "127.0.0.1:0", "--out", "127.0.0.1:9"))


def test_entities_may_take_what_the_job_allows(tmp_path: Path) -> None:
    job = Job(
        *(APPLICATION, "", 1, 1, tmp_path, 1, 8, slots_for(8), 0.0),
        entity_limit_bytes=7,
    )
    gateway, java = map(FrameSocket, socket.socketpair())
    partition = Partition(job, job.program(), 0, gateway, java)
    assert partition._state.serializer.limit_bytes == 7
    gateway.close()
    java.close()
