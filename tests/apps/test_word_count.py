"""Word Count: what it makes of text, and where the application it comes from was wrong."""

from __future__ import annotations

import importlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import WORD_COUNT, framing_of
from wallaroo.testing import Simulation, load, simulate

SOURCE = "Split and Count"


def count(*texts: str) -> Simulation:
    return simulate(load(WORD_COUNT), [(SOURCE, text.encode()) for text in texts])


def lines(*texts: str) -> list[str]:
    return [output.decode() for output in count(*texts).outputs]


def test_each_word_goes_out_with_its_count_so_far() -> None:
    assert count("to be or not to be").outputs == [
        *(b"to => 1\n", b"be => 1\n", b"or => 1\n"),
        *(b"not => 1\n", b"to => 2\n", b"be => 2\n"),
    ]


def test_counts_go_on_from_message_to_message() -> None:
    assert lines("be", "be", "be") == ["be => 1\n", "be => 2\n", "be => 3\n"]


def test_capitals_and_punctuation_around_words_do_not_count() -> None:
    assert lines('"Hello!" (hello), HELLO...') == ["hello => 1\n", "hello => 2\n", "hello => 3\n"]


def test_punctuation_inside_a_word_is_part_of_it() -> None:
    assert lines("don't mother-in-law") == ["don't => 1\n", "mother-in-law => 1\n"]


def test_the_lines_of_a_message_are_counted_in_turn() -> None:
    assert lines("one\ntwo\none") == ["one => 1\n", "two => 1\n", "one => 2\n"]


@pytest.mark.parametrize("word", ["élan", "ñandú", "42", "ärger", "日本", "½"])
def test_words_that_begin_with_no_letter_from_a_to_z_are_counted_too(word: str) -> None:
    result = count(word, word)
    assert result.outputs[-1] == f"{word} => 2\n".encode()
    assert result.unknown_keys == []
    assert list(result.state["word totals"]) == ["!"]


@pytest.mark.parametrize("text", ["", " ", "...", "?!"])
def test_the_empty_word_is_counted_like_any_other(text: str) -> None:
    result = count(text)
    assert result.outputs == [b" => 1\n"]
    assert result.set_aside == []


def test_two_spaces_have_an_empty_word_between_them() -> None:
    assert lines("a  b") == ["a => 1\n", " => 1\n", "b => 1\n"]


def test_words_of_one_first_letter_share_an_entity() -> None:
    state = count("acorn apple zebra 7").state["word totals"]
    assert sorted(state) == ["!", "a", "z"]
    assert state["a"].word_totals == {"acorn": 1, "apple": 1}


def test_what_is_not_utf_8_is_set_aside_and_the_stream_goes_on() -> None:
    result = simulate(load(WORD_COUNT), [(SOURCE, b"\xff\xfe"), (SOURCE, b"on")])
    ((pipeline, step, message, error),) = result.set_aside
    assert (pipeline, step, message) == (SOURCE, "decoder", b"\xff\xfe")
    assert isinstance(error, UnicodeDecodeError)
    assert result.outputs == [b"on => 1\n"]


def test_its_frames_have_a_big_endian_length_of_32_bits() -> None:
    (source,) = load(WORD_COUNT).sources
    assert framing_of(source).frame(b"hello") == b"\x00\x00\x00\x05hello"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.sampled_from("aAbéZ'.! \n7"), max_size=30), max_size=8))
def test_the_last_counts_are_the_totals(texts: list[str]) -> None:
    outputs = lines(*texts)
    last = dict(output.rsplit(" => ", 1) for output in outputs)
    assert sum(map(int, last.values())) == len(outputs)


def test_generated_lines_are_those_of_their_seed() -> None:
    load(WORD_COUNT)
    generate = importlib.import_module("generate")
    assert list(generate.lines(50, 7)) == list(generate.lines(50, 7))
    assert list(generate.lines(50, 7)) != list(generate.lines(50, 8))


def test_generated_lines_have_what_text_has() -> None:
    load(WORD_COUNT)
    text = list(importlib.import_module("generate").lines(1_000, 7))
    assert "" in text
    joined = "\n".join(text)
    assert not joined.isascii()
    assert any(mark in joined for mark in ",.!?;")
    assert any(letter.isupper() for letter in joined)


def test_the_demo_expects_what_the_application_makes() -> None:
    application = load(WORD_COUNT)
    demo = importlib.import_module("demo")
    rounds = list(demo.rounds(1_500, 7))
    messages = [(source, payload) for source, payloads in rounds for payload in payloads]
    assert len(messages) == 1_500
    expected = [output for turn in demo.expected(rounds) for output in turn]
    assert simulate(application, messages).outputs == expected
