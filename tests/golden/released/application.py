"""The application of the state directories of released versions; it never changes."""

from __future__ import annotations

from collections.abc import Sequence

import wallaroo


def application_setup(args: Sequence[str]) -> wallaroo.DeclaredApplication:
    """Counts texts, with a step in between, and passes numbers on."""
    one, other = wallaroo.tcp_parse_input_addrs(args)[:2]
    sink = wallaroo.TCPSinkConfig(*wallaroo.tcp_parse_output_addrs(args)[0], encode)
    counted = (
        wallaroo.source("Texts", wallaroo.TCPSourceConfig(one.host, one.port, decode))
        .key_by(first_letter)
        .to(count)
    )
    summed = (
        wallaroo.source("Numbers", wallaroo.TCPSourceConfig(other.host, other.port, number_of))
        .key_by(parity)
        .to(add)
    )
    return wallaroo.build_application("Released", counted.merge(summed).to_sink(sink))


class Count:
    """Of each first letter."""

    def __init__(self) -> None:
        self.texts: list[str] = []


class Sum:
    """Of even, and of odd numbers."""

    def __init__(self) -> None:
        self.total = 0


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> str:
    """A text."""
    return payload.decode()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def number_of(payload: bytes) -> int:
    """A number; anything else becomes a dead letter."""
    return int(payload)


@wallaroo.key_extractor
def first_letter(text: str) -> str:
    """The key of a text."""
    return text[0]


@wallaroo.key_extractor
def parity(number: int) -> str:
    """The key of a number."""
    return "odd" if number % 2 else "even"


@wallaroo.state_computation(name="count", state=Count)
def count(text: str, letter: Count) -> str:
    """How many texts have come, and the one before."""
    letter.texts.append(text)
    return f"{text[0]} {len(letter.texts)} {letter.texts[-2:]}"


@wallaroo.state_computation(name="add", state=Sum)
def add(number: int, parity: Sum) -> str:
    """The sum so far."""
    parity.total += number
    return f"{'odd' if number % 2 else 'even'} {number} {parity.total}"


@wallaroo.encoder
def encode(line: str) -> str:
    """A line."""
    return f"{line}\n"
