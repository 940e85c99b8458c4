"""Word Count: counts words, and emits the current count of each word as `word => count`.

The input is lines of text; one state entity per first letter counts words. See "Scalable Event
Processing in Python" and "Idiomatic Python Stream Processing in Wallaroo".
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import TypeAlias

import wallaroo

PUNCTUATION = " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
LETTERS = frozenset(string.ascii_lowercase)
OTHER = "!"
"""Key of the words that do not begin with a letter from a to z."""


def application_setup(args: Sequence[str]) -> wallaroo.DeclaredApplication:
    """Wire the pipeline; takes one input address and one output address."""
    in_host, in_port = wallaroo.tcp_parse_input_addrs(args)[0]
    out_host, out_port = wallaroo.tcp_parse_output_addrs(args)[0]
    letters = [*string.ascii_lowercase, OTHER]

    builder = wallaroo.ApplicationBuilder("Word Count Application")
    builder.new_pipeline("Split and Count", wallaroo.TCPSourceConfig(in_host, in_port, decoder))
    builder.to_parallel(split)
    builder.to_state_partition(
        count_word, WordTotals, "word totals", first_letter, letters, other_keys="drop"
    )
    builder.to_sink(wallaroo.TCPSinkConfig(out_host, out_port, encoder))
    return builder.build()


WordCount: TypeAlias = tuple[str, int]
"""A word and its count; a plain tuple, because one is created for every word."""


class WordTotals:
    """The counts of all words with one first letter."""

    __slots__ = ("word_totals",)

    def __init__(self) -> None:
        self.word_totals: dict[str, int] = {}


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decoder(bs: bytes) -> str:
    """Decode a payload to text."""
    return bs.decode("utf-8")


@wallaroo.computation_multi(name="split into words")
def split(text: str) -> list[str]:
    r"""Return the words of *text* in lower case, without surrounding punctuation.

    The text between two adjacent spaces is an empty word, and so is an empty line; they are
    counted, as in Wallaroo's example.

    Example:
        >>> split("Why hello, world!\n\n(Again?)")
        ['why', 'hello', 'world', '', 'again']
    """
    words: list[str] = []
    for line in text.split("\n"):
        for word in line.lower().strip(PUNCTUATION).split(" "):
            words.append(word.strip(PUNCTUATION))
    return words


@wallaroo.partition
def first_letter(word: str) -> str:
    """Return the key of a word.

    Example:
        >>> [first_letter(word) for word in ("acorn", "élan", "42", "zebra", "")]
        ['a', '!', '!', 'z', '!']
    """
    letter = word[:1]
    return letter if letter in LETTERS else OTHER


@wallaroo.state_computation(name="Count Word")
def count_word(word: str, totals: WordTotals) -> tuple[WordCount, bool]:
    """Count *word*, and return its current count."""
    counts = totals.word_totals
    count = counts[word] = counts.get(word, 0) + 1
    return ((word, count), True)


@wallaroo.encoder
def encoder(word_count: WordCount) -> bytes:
    r"""Format a count as a line.

    Example:
        >>> encoder(("acorn", 2))
        b'acorn => 2\n'
    """
    word, count = word_count
    return f"{word} => {count}\n".encode()
