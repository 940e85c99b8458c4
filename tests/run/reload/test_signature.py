"""When a gateway needs other code, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import wallaroo
from tests.run.reload.application import ARGUMENTS, change, write
from wallaroo.loading import loader
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.run.reload.signature import serves_as_before

SINK = "wallaroo.TCPSinkConfig(to_host, to_port, encode)"
SOURCE = "wallaroo.TCPSourceConfig(host, port, decode)"


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield write(tmp_path)
    loader.unload(tmp_path)


def load(directory: Path) -> Application:
    loader.unload(directory)
    return ApplicationRef(str(directory), ARGUMENTS).load()


@pytest.mark.parametrize(
    ("old", "new", "file"),
    [
        ('"one"', '"two"', "texts.py"),
        ("payload.decode()", "payload.decode().lower()", "application.py"),
        ("\n\nclass Total", "\n\n\nclass Total", "application.py"),
        ('"count"', '"total"', "application.py"),
    ],
)
def test_other_functions_do_not_concern_it(directory: Path, old: str, new: str, file: str) -> None:
    before = load(directory)
    change(directory, old, new, file)
    assert serves_as_before(before, load(directory))


def test_files_are_served_as_before(directory: Path) -> None:
    change(directory, SINK, 'wallaroo.FileSinkConfig("out", encode)')
    assert serves_as_before(load(directory), load(directory))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('header_length=4, length_fmt=">I"', 'header_length=2, length_fmt=">H"'),
        ('"Keys"', '"Others"'),
        (SINK, 'wallaroo.FileSinkConfig("out", encode)'),
        (SINK, SINK.replace("encode)", "encode, sequenced=True)")),
        (SOURCE, SOURCE.replace("decode)", 'decode, framing="lines")')),
    ],
)
def test_other_sources_and_sinks_do(directory: Path, old: str, new: str) -> None:
    before = load(directory)
    change(directory, old, new)
    assert not serves_as_before(before, load(directory))


def test_whether_dead_letters_are_also_kept_does() -> None:
    def publishing(*, keep: bool) -> Application:
        builder = wallaroo.ApplicationBuilder("app")
        builder.new_pipeline("in", wallaroo.KafkaSourceConfig("t", "broker", bytes.decode)).done()
        to = wallaroo.KafkaDeadLetters("lost", "broker", keep=keep)
        return resolve(builder.build(dead_letters=to))

    assert serves_as_before(publishing(keep=True), publishing(keep=True))
    assert not serves_as_before(publishing(keep=True), publishing(keep=False))


NUMBERS = """
class Numbers:
    def initial_value(self):
        return 1

    def apply(self, number):
        return number


class Total"""


def test_code_that_it_runs_does_even_if_nothing_seems_to_differ(directory: Path) -> None:
    change(directory, "\nclass Total", NUMBERS)
    change(directory, SOURCE, "wallaroo.GenSourceConfig(Numbers())")
    assert not serves_as_before(load(directory), load(directory))
