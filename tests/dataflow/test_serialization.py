"""An application's own `serialize` is asked for everything, whatever it returns."""

from __future__ import annotations

from typing import Any, NamedTuple

import wallaroo
from tests.dataflow.harness import Driven, chunks
from wallaroo.model.application import Serialization
from wallaroo.resolution.application import resolve
from wallaroo.testing import simulate


class Pair(NamedTuple):
    name: str
    number: int


@wallaroo.decoder(header_length=2, length_fmt=">H")
def decode(payload: bytes) -> Pair:
    return Pair(payload[:1].decode(), int(payload[1:]))


@wallaroo.partition
def name(pair: Pair) -> str:
    return pair.name


@wallaroo.state_computation(name="note", state=list)
def note(pair: Pair, numbers: list[int]) -> str:
    numbers.append(pair.number)
    return f"{pair.name}{numbers}"


def negated(thing: Any) -> Any:
    """A pair of the message's own class, which holds what nothing can change."""
    return thing._replace(number=-thing.number) if isinstance(thing, Pair) else thing


def test_messages_that_are_serialized_as_objects_of_their_class_are_all_serialized() -> None:
    builder = wallaroo.ApplicationBuilder("own")
    builder.new_pipeline("p", wallaroo.TCPSourceConfig("", 0, decode))
    builder.to_state_partition(note, None, "numbers", name)
    builder.to_sink(wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str)))
    own = Serialization(negated, lambda thing: thing)
    made = resolve(builder.build(), serialization=own)
    sent = [("p", payload) for payload in (b"a1", b"a2", b"b3")]
    expected = simulate(made, sent)
    assert expected.outputs == [b"a[-1]", b"a[-1, -2]", b"b[-3]"]
    driven = Driven(made)
    for batch in chunks(made, sent, [0] * len(sent)):
        driven.batch(batch)
    assert sorted(driven.outputs["p"]) == sorted(expected.outputs)
