"""Generates lines of text in a made-up language, with a few very frequent words.

Word frequencies follow Zipf's law; some words have capitals, punctuation or accents, and some lines
are empty. The same seed yields the same lines.

    python generate.py --messages 100000 --seed 7 lines.txt
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import TextIO

import click

_SYLLABLES = [
    "ba",
    "co",
    "de",
    "fi",
    "ga",
    "hu",
    "jo",
    "ka",
    "le",
    "mi",
    "no",
    "pu",
    "ra",
    "se",
    "ti",
    "ul",
    "vo",
    "wa",
    "xe",
    "yo",
    "zu",
    "an",
    "er",
    "is",
    "or",
    "é",
    "ño",
    "ü",
]
_PUNCTUATION = ["", "", "", "", "", "", ",", ".", "!", "?", ";"]
_VOCABULARY = 5_000
_WORDS_A_LINE = 10


def lines(count: int, seed: int) -> Iterator[str]:
    """Yield *count* lines."""
    rng = random.Random(seed)
    vocabulary: dict[str, None] = {}
    while len(vocabulary) < _VOCABULARY:
        vocabulary["".join(rng.choices(_SYLLABLES, k=rng.randint(1, 4)))] = None
    words = list(vocabulary)
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))
    for _ in range(count):
        if rng.random() < 0.01:
            yield ""
            continue
        chosen = rng.choices(words, cum_weights=weights, k=_WORDS_A_LINE)
        yield " ".join(word + rng.choice(_PUNCTUATION) for word in chosen).capitalize()


@click.command()
@click.option("--messages", default=100_000, show_default=True, help="Number of lines.")
@click.option("--seed", default=7, show_default=True, help="Seed of all randomness.")
@click.argument("file", type=click.File("w", encoding="utf-8"))
def main(messages: int, seed: int, file: TextIO) -> None:
    """Write lines of text to FILE, for `wallaroo send`."""
    file.writelines(line + "\n" for line in lines(messages, seed))
    click.echo(f"{messages:,} lines")


if __name__ == "__main__":
    main()
