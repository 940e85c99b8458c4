"""The end of Spark's Java, which is a stand-in here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import wait_until
from wallaroo.engine.spark import java
from wallaroo.engine.spark.class_cache import recording


def test_java_that_records_is_waited_for_until_it_has_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, recorded = tmp_path / "bin" / "java", tmp_path / "recorded"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat >/dev/null\necho classes >{recorded}\n")
    program.chmod(0o755)
    monkeypatch.setattr(java, "find_java", lambda: str(program))
    monkeypatch.setattr(java, "_END_TIMEOUT_S", 0.0)
    for name in ("_gateway", "_jvm", "_active_spark_context"):  # other tests may have set them
        monkeypatch.setattr(f"pyspark.SparkContext.{name}", None)
    running = java.Java("64m", recording(recorded))
    running._is_up = True
    running.stop()
    assert recorded.read_text() == "classes\n"


def test_temporary_files_of_java_go_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, named = tmp_path / "bin" / "java", tmp_path / "named"
    program.parent.mkdir()
    program.write_text(
        f"""#!/bin/sh
        for option do
            case $option in
            -Djava.io.tmpdir=*) directory=${{option#*=}} ;;
            esac
        done
        touch "$directory/library.so" "$directory/connection"
        echo "$directory" >{named}
        cat >/dev/null
        """
    )
    program.chmod(0o755)
    monkeypatch.setattr(java, "find_java", lambda: str(program))
    running = java.Java("64m", [])
    wait_until(lambda: named.exists() and named.read_text().endswith("\n"), "its start")
    directory = Path(named.read_text().strip())
    assert (directory / "library.so").exists()
    running.stop()
    assert not directory.exists()
