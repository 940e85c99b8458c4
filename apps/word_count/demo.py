"""The input of `wallaroo demo word_count`, and the expected output, in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

import generate

OUTPUT_FRAMING = "lines"
_ROUND = 1000
_PUNCTUATION = " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def rounds(messages: int, seed: int) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the payloads to send, in rounds: pairs of a source's name and its payloads."""
    lines = generate.lines(messages, seed)
    while turn := [line.encode() for line in islice(lines, _ROUND)]:
        yield ("Split and Count", turn)


def expected(sent: Iterable[tuple[str, list[bytes]]]) -> Iterator[list[bytes]]:
    """Yield the expected outputs of each round."""
    counts: Counter[str] = Counter()
    for _, payloads in sent:
        results: list[bytes] = []
        for payload in payloads:
            for word in payload.decode().lower().strip(_PUNCTUATION).split(" "):
                bare = word.strip(_PUNCTUATION)
                counts[bare] += 1
                results.append(f"{bare} => {counts[bare]}\n".encode())
        yield results


def comparable(output: bytes) -> bytes:
    """Return *output* unchanged, because it has no clock field."""
    return output


def key(output: bytes) -> bytes:
    """Return the word: outputs of the same word are in order."""
    return output.rpartition(b" => ")[0]
