"""Worker processes: which one a task comes to, and what Spark sees when one ends."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.helpers import PATIENCE_S

_DAEMON = """
import os, pathlib, select, socket, sys
from wallaroo.engine.spark.workers import Workers


def run(connection):
    task = connection.recv(13)
    connection.sendall(b"%d\\n" % os.getpid())
    if task[12:] == b"w":  # until it is told to go on
        connection.recv(1)
        connection.sendall(b"done\\n")
    elif task[12:] == b"x":
        os._exit(1)
    elif task[12:] == b"k":  # until it is about to be killed
        while not killing.exists():
            pass
    return task[12:] != b"f"


class Told(Workers):
    def _on_process(self, process):
        super()._on_process(process)
        print("heard", flush=True)


def kill(pid, number):
    (control,) = [p.control for p in told._processes.values() if p.pid == pid]
    killing.touch()
    select.select([control], [], [])  # it has just come to the end of its task, or has ended
    really_kill(pid, number)


killing = pathlib.Path(sys.argv[1]).with_name("killing")
really_kill, os.kill = os.kill, kill
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("up", flush=True)
told = Told(listener, 0, run)
told.serve()
"""


class Spark:
    """What Spark does with its daemon: connections, and tasks that come by them."""

    def __init__(self, place: Path) -> None:
        self.place = place
        command = [sys.executable, "-c", _DAEMON, str(place)]
        self.daemon = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.daemon.stdout is not None
        assert self.daemon.stdout.readline() == b"up\n"
        self._connections: list[Connection] = []

    def connect(self) -> Connection:
        self._connections.append(Connection(self))
        return self._connections[-1]

    def wait_until_heard(self) -> None:
        """Wait until a process has told that it is free, or has ended."""
        assert self.daemon.stdout is not None
        assert self.daemon.stdout.readline() == b"heard\n"

    def processes(self) -> set[int]:
        return {child.pid for child in psutil.Process(self.daemon.pid).children()}

    def stop(self) -> None:
        assert self.daemon.stdin is not None
        assert self.daemon.stdout is not None
        self.daemon.stdin.close()
        self.daemon.wait(PATIENCE_S)
        self.daemon.stdout.close()
        for connection in self._connections:
            connection.close()


class Connection:
    def __init__(self, spark: Spark) -> None:
        self._spark = spark
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(PATIENCE_S)
        self._socket.connect(str(spark.place))
        self._lines = self._socket.makefile("rb")
        (self.told_pid,) = struct.unpack(">i", self._lines.read(4))

    def run(self, partition: int, task: bytes = b"r") -> int:
        """Run a task; the process that it came to."""
        self._socket.sendall(struct.pack(">iii", -7, 5, partition) + task)
        process = int(self._lines.readline())
        if task in {b"r", b"x"}:
            self._spark.wait_until_heard()
        return process

    def go_on(self) -> None:
        self._socket.sendall(b"g")
        assert self._lines.readline() == b"done\n"
        self._spark.wait_until_heard()

    def is_closed(self) -> bool:
        try:
            return self._lines.readline() == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Spark]:
    spark = Spark(tmp_path / "socket")
    yield spark
    spark.stop()


def both_busy(spark: Spark) -> tuple[Connection, Connection, int, int]:
    """Two connections, and the processes that had partitions 0 and 1."""
    one, other = spark.connect(), spark.connect()
    had_0, had_1 = one.run(0, b"w"), other.run(1, b"w")
    one.go_on()
    other.go_on()
    return one, other, had_0, had_1


def test_tasks_that_run_at_a_time_run_in_processes_of_their_own(spark: Spark) -> None:
    _, _, had_0, had_1 = both_busy(spark)
    assert had_0 != had_1
    assert spark.processes() == {had_0, had_1}


def test_a_partition_comes_to_the_process_that_had_it_by_whatever_connection(spark: Spark) -> None:
    one, other, had_0, had_1 = both_busy(spark)
    for connection in (one, other, spark.connect()):
        for _ in range(3):
            assert connection.run(1) == had_1
            assert connection.run(0) == had_0


def test_where_the_process_that_had_it_is_busy_another_takes_it(spark: Spark) -> None:
    one, other, had_0, had_1 = both_busy(spark)
    assert one.run(0, b"w") == had_0
    assert other.run(0) == had_1
    one.go_on()


def test_processes_outlive_their_connections(spark: Spark) -> None:
    one, other, had_0, had_1 = both_busy(spark)
    one.close()
    other.close()
    assert spark.connect().run(0) == had_0
    assert spark.connect().run(1) == had_1


def test_spark_sees_the_end_of_a_process_at_the_connection_of_its_task(spark: Spark) -> None:
    one, other, had_0, had_1 = both_busy(spark)
    assert one.run(0, b"x") == had_0
    assert one.is_closed()
    assert other.run(1) == had_1
    assert spark.connect().run(0) in spark.processes()


def test_a_process_that_ended_without_a_task_is_replaced(spark: Spark) -> None:
    one, _, had_0, _ = both_busy(spark)
    os.kill(had_0, signal.SIGKILL)
    spark.wait_until_heard()
    assert one.run(0) in spark.processes()


def test_a_process_whose_task_spark_gives_up_is_ended(spark: Spark) -> None:
    one, other, had_0, had_1 = both_busy(spark)
    process = psutil.Process(had_0)
    one.run(0, b"w")
    one.close()
    process.wait(PATIENCE_S)
    assert spark.processes() == {had_1}
    assert other.run(1) == had_1


def test_a_process_may_end_at_the_moment_when_spark_gives_up_its_task(spark: Spark) -> None:
    one, other, had_0, had_1 = both_busy(spark)
    one.run(0, b"w")
    process, daemon = psutil.Process(had_0), psutil.Process(spark.daemon.pid)
    daemon.suspend()
    one.close()
    process.wait(PATIENCE_S)  # what it writes reaches nobody
    daemon.resume()  # and finds the connection closed and the process ended at a time
    spark.wait_until_heard()
    assert other.run(1) == had_1
    assert spark.connect().run(0) in spark.processes()


def test_a_task_may_end_at_the_moment_when_spark_gives_it_up(spark: Spark) -> None:
    one, other, had_0, had_1 = both_busy(spark)
    one.run(0, b"k")
    process = psutil.Process(had_0)
    one.close()
    process.wait(PATIENCE_S)
    spark.wait_until_heard()
    assert other.run(1) == had_1
    assert spark.connect().run(0) in spark.processes()


def test_connections_may_be_closed_before_they_are_accepted(spark: Spark) -> None:
    daemon = psutil.Process(spark.daemon.pid)
    daemon.suspend()
    with socket.socket(socket.AF_UNIX) as early:
        early.connect(str(spark.place))
    daemon.resume()
    assert spark.connect().run(0) in spark.processes()


def test_a_process_whose_task_failed_ends_once_spark_has_read_why(spark: Spark) -> None:
    one, _, had_0, _ = both_busy(spark)
    assert one.run(0, b"f") == had_0
    assert had_0 in spark.processes()
    process = psutil.Process(had_0)
    one.close()
    process.wait(PATIENCE_S)


def test_the_number_that_spark_is_told_is_that_of_a_process_that_lives(spark: Spark) -> None:
    assert spark.connect().told_pid == spark.daemon.pid


def test_no_process_is_left_when_spark_is_gone(spark: Spark) -> None:
    both_busy(spark)
    left = [psutil.Process(pid) for pid in spark.processes()]
    spark.stop()
    assert not psutil.wait_procs(left, PATIENCE_S)[1]
