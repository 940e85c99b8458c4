"""A process of a real-time query: the first stage, or one partition.

The `agent` of a machine forks it. It connects to Spark's Java over a Unix socket, and to the
gateway. Where either ends, so does it: the query fails then, and is started again from what is
published.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import select
import sys
import threading
from typing import NoReturn

from wallaroo.dataflow.call_timeout import CallTimeout
from wallaroo.dataflow.process_health import note_connections
from wallaroo.dataflow.stored_records import LocalStoreFailed
from wallaroo.dataflow.user_logs import capture_worker_logs, log_event, worker_name
from wallaroo.engine.realtime.job import Job
from wallaroo.engine.realtime.state_import import ImportJob
from wallaroo.engine.spark.worker_version import check_version
from wallaroo.errors import DamagedFile, OtherVersion
from wallaroo.system.credentials import take_token
from wallaroo.wire.channel import connect
from wallaroo.wire.chunk_messages import DAMAGED, HELLO, NO_ROOM, READER, pack_json
from wallaroo.wire.frame_socket import FrameSocket

CUT_OFF = 75
"""Exit code of a process that ends because the gateway or Java has cut it off."""
_FAILED = 1
_HANG_UP = getattr(select, "POLLRDHUP", 0)
"""What `poll` reports when the other side has closed a connection, even if data is unread."""


def name_of(role: int) -> str:
    """What the process *role* is called in messages."""
    return "the first stage" if role == READER else f"partition {role}"


def run(pickled: bytes, role: int, java_socket: str, files: str) -> NoReturn:
    """Run as the process *role* of a query; the agent calls it in a fork.

    Args:
        pickled: The query's `Job`, from the driver.
        role: Number of a partition, or `READER`.
        java_socket: Path of the socket at which Java waits for this process.
        files: Directory of the files that the driver has distributed.
    """
    status = 0
    try:
        _run(pickled, role, java_socket, files)
    except (ConnectionError, EOFError):
        status = CUT_OFF
    except BaseException as error:
        status = _FAILED
        log_event(
            "error", "a process of the query failed", error=f"{type(error).__name__}: {error}"
        )
    with contextlib.suppress(OSError, ValueError):  # user code may have closed them
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)  # no thread of user code keeps it alive


def _run(pickled: bytes, role: int, java_socket: str, files: str) -> None:
    capture_worker_logs(None, worker=worker_name())
    token = take_token()
    java = connect(java_socket)
    note_connections()
    job: Job | ImportJob = pickle.loads(pickled)
    if isinstance(job, ImportJob):
        job.serve(role, java)
        return
    problem = None
    try:
        check_version(getattr(job, "version", None))
        program = job.program(files)
    except OtherVersion as error:
        problem = str(error)
    else:
        capture_worker_logs(program.application.name)
        gc.collect()
        gc.freeze()
        gc.disable()  # the collector is called between chunks
    gateway = connect(job.gateway, job.token or token)
    note_connections([gateway.fileno()])
    gateway.send(pack_json(HELLO, job.hello(role)))
    _end_with(gateway)
    if problem is not None:
        _give_up(gateway, problem)
        return
    patience = CallTimeout(job.call_limit_s)
    patience.start()
    try:
        if role == READER:
            from wallaroo.engine.realtime.reader import Reader

            Reader(job, program, gateway, java).run()
        else:
            from wallaroo.engine.realtime.partition import Partition

            Partition(job, program, role, gateway, java).run()
    except DamagedFile as error:
        _give_up(gateway, str(error))
    except LocalStoreFailed as error:
        if not error.lacks_room:
            raise
        log_event("error", str(error))
        _give_up(gateway, str(error), NO_ROOM)


def _give_up(gateway: FrameSocket, problem: str, kind: bytes = DAMAGED) -> None:
    """Let the gateway end the query, for a reason of a *kind* that a new start does not remove."""
    gateway.send(pack_json(kind, problem))  # which lets the driver know, and cuts it off
    gateway.receive()


def _end_with(gateway: FrameSocket) -> None:
    """End this process when the gateway closes the connection, whatever user code is doing."""
    if not _HANG_UP:
        return
    poll = select.poll()
    poll.register(gateway.fileno(), _HANG_UP)

    def watch() -> None:
        poll.poll()
        os._exit(CUT_OFF)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
