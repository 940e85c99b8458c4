"""Files in the normal form, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import wallaroo
from tests.applications.counting import as_line
from tests.resolution.declared import SOURCE, begun, only_problem, problems, this_line
from wallaroo.connectors.python.resolve import CustomSink
from wallaroo.errors import RuntimeFailure
from wallaroo.resolution.application import resolve

HERE = "test_resolve.py"


@wallaroo.computation(name="shout")
def shout(message: str) -> str:
    return message.upper()


def test_a_file_of_frames_needs_a_decoder_that_cuts_them_and_lines_need_a_function() -> None:
    decoder: Any = "utf-8"
    builder = begun(wallaroo.FileSourceConfig("i", bytes.decode)).done()
    builder.new_pipeline("lines too", wallaroo.FileSourceConfig("i", decoder, "lines")).done()
    told = problems(builder)
    assert (
        "pipeline 'lines': the function decode is not a decoder; decorate it with @decoder"
        in told[0]
    )
    assert "pipeline 'lines too': 'utf-8' is not a decoder; expected a function" in told[1]


def test_a_file_has_one_sink_that_merged_pipelines_may_share() -> None:
    sink = wallaroo.FileSinkConfig("/o", as_line)
    at = this_line() - 1
    left, right = (wallaroo.source(name, SOURCE) for name in ("left", "right"))
    shared = wallaroo.build_application("app", left.merge(right).to(shout).to_sink(sink))
    assert len(resolve(shared).sinks) == 1
    for path in ("/o", "/tmp/../o"):
        twice = begun().to_sinks([sink, wallaroo.FileSinkConfig(path, as_line)])
        assert only_problem(twice).endswith(
            f"pipeline 'lines': {path} is written by the sink at {HERE}:{at} already"
        )


def test_a_sink_that_is_to_skip_what_was_lost_appends_to_a_file_that_was_shortened(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    declared = begun().to_sink(wallaroo.FileSinkConfig(out, as_line, "lines"))
    (sink,) = resolve(declared.build()).sinks
    assert isinstance(sink, CustomSink)
    written(sink, 0, b"one", b"two")
    os.truncate(out, 4)
    with pytest.raises(RuntimeFailure, match="start once with --on-lost skip"):
        written(sink, 2, b"three")
    written(sink.skipping_lost(), 2, b"three")
    assert out.read_bytes() == b"one\nthree\n"


def written(sink: CustomSink, first: int, *outputs: bytes) -> None:
    sink.writer.open("a")
    try:
        sink.writer.write(first, outputs)
    finally:
        sink.writer.close()
