"""The jar of the Scala modules, compiled by the compiler that PySpark brings, for that PySpark.

It lies beside the sources, or where that cannot be written in the user's cache, under a name with a
digest of the sources and PySpark's version: what fits is found, and nothing else is used.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from wallaroo.engine.realtime import guarded_shuffle
from wallaroo.engine.spark.java import find_java, spark_jars
from wallaroo.errors import UsageError
from wallaroo.system.private_files import as_outside

SOURCES = tuple(sorted(Path(__file__).with_name("jvm").glob("*.scala")))
_COMPILER = "scala.tools.nsc.Main"


def jar() -> Path:
    """The jar, compiled if need be.

    Raises:
        UsageError: It is not there and cannot be compiled; the message names what Spark lacks.
    """
    sources = (*SOURCES, Path(guarded_shuffle.__file__))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources))
    digest.update(importlib.metadata.version("pyspark").encode())
    name = f"realtime-{digest.hexdigest()[:16]}.jar"
    places = list(_places())
    for place in places:
        if (place / name).exists():
            return place / name
    with tempfile.TemporaryDirectory(prefix="wallaroo-scala-") as scratch:
        made = compiled(SOURCES, Path(scratch))
        for place in places:
            try:
                place.mkdir(parents=True, exist_ok=True)
                for old in place.glob("realtime-*.jar"):
                    old.unlink()
                fresh = place / f"{name}.{os.getpid()}"
                shutil.copyfile(made, fresh)
                as_outside(fresh)
                fresh.replace(place / name)
            except OSError:
                continue
            return place / name
    msg = f"the jar of the engine can be written to none of {', '.join(map(str, places))}"
    raise UsageError(msg)


def compiled(sources: Sequence[Path], scratch: Path) -> Path:
    """A jar of *sources*, in the directory *scratch*.

    Raises:
        UsageError: It does not compile with the installed PySpark.
    """
    classes = scratch / "classes"
    classes.mkdir()
    command = [find_java(), "-XX:TieredStopAtLevel=1", "-cp", f"{spark_jars()}/*", _COMPILER]
    command += ["-usejavacp", "-target:17", "-nowarn", "-d", str(classes), *map(str, sources)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        version = importlib.metadata.version("pyspark")
        lines = (result.stdout + result.stderr).splitlines()
        errors = [line for line in lines if "error:" in line] or lines[-3:]
        first = re.sub(r"^.*?([^/]+\.scala)", r"\1", errors[0]) if errors else "no output"
        msg = (
            f"the engine does not compile with PySpark {version}, whose interfaces have changed: "
            f"{first}; install the PySpark that this version of wallaroo requires"
        )
        raise UsageError(msg)
    made = scratch / "realtime.jar"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(classes.rglob("*.class")):
            archive.write(file, file.relative_to(classes))
        for name, content in guarded_shuffle.guarded_classes(spark_jars()):
            archive.writestr(name, content)
    return made


def _places() -> Iterator[Path]:
    yield SOURCES[0].parent
    yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wallaroo"


if __name__ == "__main__":
    jar()
