"""What a simulation tells beside its outputs, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import wallaroo
from wallaroo.errors import ApplicationError, UsageError
from wallaroo.testing import HintWarning, load, messages_of, simulate


@wallaroo.decoder(header_length=4, length_fmt=">I")
def text(bs: bytes) -> str:
    return bs.decode()


@wallaroo.state_computation(name="remember", state=list)
def remember(word: str, seen: list[str]) -> int:
    seen.append(word)
    return len(seen)


def application(*encoders: Any) -> Any:
    builder = wallaroo.ApplicationBuilder("app")
    builder.new_pipeline("words", wallaroo.TCPSourceConfig("", 0, text))
    builder.to_state_partition(remember, None, "seen", wallaroo.partition(len))
    builder.to_sinks([wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(e)) for e in encoders])
    return builder.build()


def test_outputs_are_told_by_sink_and_all_together() -> None:
    result = simulate(application(str, lambda n: b"%d!" % n), [("words", b"a"), ("words", b"b")])
    assert result.outputs == [b"1", b"1!", b"2", b"2!"]
    assert result.by_sink == {"words": [b"1", b"2"], "words 2": [b"1!", b"2!"]}


def test_state_is_told_by_partition_and_key() -> None:
    words = [("words", word) for word in (b"to", b"be", b"not")]
    assert simulate(application(str), words).state == {"seen": {2: ["to", "be"], 3: ["not"]}}


def test_a_state_computation_that_names_its_state_returns_its_output_alone() -> None:
    assert simulate(application(str), [("words", b"a")]).outputs == [b"1"]


def test_one_encoder_that_raises_does_not_keep_the_other_from_sending() -> None:
    result = simulate(application(lambda n: n / 0, str), [("words", b"a")])
    assert result.outputs == [b"1"]
    assert [(step, type(error)) for _, step, _, error in result.set_aside] == [
        ("encoder of words", ZeroDivisionError)
    ]


def test_an_encoder_that_returns_no_bytes_is_told() -> None:
    ((_, _, message, error),) = simulate(application(lambda n: -n), [("words", b"a")]).set_aside
    assert str(error) == "the encoder returned -1 (int); expected bytes or a str"
    assert message == 1


def test_a_source_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(
        UsageError, match="the source 'lines' does not exist; the application has 'words'"
    ):
        simulate(application(str), [("lines", b"a")])


def test_an_application_that_is_not_well_formed_is_refused() -> None:
    with pytest.raises(ApplicationError, match="has no pipeline"):
        simulate(wallaroo.ApplicationBuilder("empty").build(), [])


def test_an_application_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="no application found"):
        load("no/such/application")


class Doubled:
    def initial_value(self) -> int:
        return 1

    def apply(self, previous: int) -> int | None:
        return 2 * previous if previous < 8 else None


@wallaroo.computation(name="negate")
def negate(number: int) -> int:
    return -number


def of_source(config: Any, *steps: Any) -> Any:
    builder = wallaroo.ApplicationBuilder("app").new_pipeline("in", config)
    for step in steps:
        builder.to(step)
    return builder.to_sink(wallaroo.FileSinkConfig("unused", wallaroo.encoder(str))).build()


def test_the_messages_of_a_generator_are_its_values() -> None:
    app = of_source(wallaroo.GenSourceConfig(Doubled()), negate)
    assert simulate(app, [("in", 5), ("in", 0)]).outputs == [b"-5", b"0"]
    assert simulate(app, messages_of(app, "in")).outputs == [b"-1", b"-2", b"-4", b"-8"]


@wallaroo.computation_multi(name="count down")
def count_down(number: int) -> Iterator[int]:
    yield number
    yield 10 // number


def test_of_a_message_that_is_set_aside_nothing_comes_though_some_of_it_was_made() -> None:
    app = of_source(wallaroo.GenSourceConfig(Doubled()), count_down)
    result = simulate(app, [("in", 5), ("in", 0), ("in", 2)])
    assert result.outputs == [b"5", b"2", b"2", b"5"]
    assert [(step, message) for _, step, message, _ in result.set_aside] == [("count down", 0)]


def test_the_messages_of_a_file_are_its_payloads(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"1\n2\nthree\n")
    for follow in (False, True):
        config = wallaroo.FileSourceConfig(tmp_path / "lines", int, "lines", follow)
        result = simulate(app := of_source(config, negate), messages_of(app, "in"))
        assert result.outputs == [b"-1", b"-2"]
        assert [(step, message) for _, step, message, _ in result.set_aside] == [
            ("decoder", b"three")
        ]
    assert list(messages_of(app, "in", 4)) == [("in", b"three")]


def test_the_messages_of_framed_files_are_payloads_without_headers(tmp_path: Path) -> None:
    (tmp_path / "frames").write_bytes(b"\0\0\0\1a\0\0\0\0")
    app = of_source(wallaroo.FileSourceConfig(tmp_path / "frames", text))
    assert simulate(app, messages_of(app, "in")).outputs == [b"a", b""]


def test_a_simulation_warns_of_what_check_hints_at() -> None:
    source = wallaroo.source("words", wallaroo.TCPSourceConfig("", 0, text))
    sink = wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str))
    app = wallaroo.build_application("app", source.to(remember).to_sink(sink))
    with pytest.warns(HintWarning, match="there is no key_by before it") as warned:
        assert simulate(app, [("words", b"a"), ("words", b"b")]).outputs == [b"1", b"2"]
    assert [one.filename for one in warned] == [__file__]


def test_a_source_that_listens_has_no_messages_of_its_own() -> None:
    with pytest.raises(UsageError, match="source 'words' listens on :0, so it has no messages"):
        next(messages_of(application(str), "words"))
    with pytest.raises(UsageError, match="source 'lines' does not exist"):
        next(messages_of(application(str), "lines"))
