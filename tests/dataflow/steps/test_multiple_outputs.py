"""What is no iterable of outputs is refused by name, on the oracle and in the engine."""

from __future__ import annotations

from typing import Any

import pytest

import wallaroo
from tests.dataflow.harness import Driven, chunks
from wallaroo.dataflow.steps.multiple_outputs import pair_of, returning_list_over_state
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.testing import simulate

text = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
encode = wallaroo.encoder(str)
MADE: dict[str, Any] = {
    "str": "ab",
    "bytes": b"ab",
    "bytearray": bytearray(b"ab"),
    "dict": {"a": 1, "b": 2},
    "list": ["a", "b"],
    "tuple": ("a", "b"),
    "range": range(2),
    "set": {"a"},
    "int": 5,
    "None": None,
}


@wallaroo.computation_multi(name="make")
def make(kind: str) -> Any:
    return MADE[kind]


@wallaroo.state_computation_multi(name="make", state=set)
def make_over_state(kind: str, _seen: set[str]) -> Any:
    return MADE[kind]


@wallaroo.state_computation_multi(name="make")
def make_and_tell(kind: str, _seen: set[str]) -> Any:
    return MADE[kind], True


class Make:
    def name(self) -> str:
        return "make"

    def compute_multi(self, kind: str) -> Any:
        return MADE[kind]


def application(step: Any) -> Application:
    builder = wallaroo.ApplicationBuilder("app")
    builder.new_pipeline("in", wallaroo.TCPSourceConfig("", 0, text))
    if step in {make_over_state, make_and_tell}:
        builder.to_state_partition(step, set, "seen", wallaroo.partition(str))
    else:
        builder.to(step)
    return resolve(builder.to_sink(wallaroo.TCPSinkConfig("", 0, encode)).build())


@pytest.mark.parametrize("cut", [0, 1])
@pytest.mark.parametrize("step", [make, make_over_state, make_and_tell, Make])
def test_a_single_message_in_the_place_of_a_list_is_set_aside(step: Any, cut: int) -> None:
    made = application(step)
    sent = [("in", kind.encode()) for kind in MADE]
    result = simulate(made, sent)
    assert sorted(result.outputs) == sorted([b"a", b"b"] * 2 + [b"0", b"1", b"a"])
    told = [(step, message, str(error)) for _, step, message, error in result.set_aside]
    assert [(step, message) for step, message, _ in told] == [
        ("make", kind) for kind in ("str", "bytes", "bytearray", "dict", "int")
    ]
    kind = (
        "state_computation_multi"
        if step in {make_over_state, make_and_tell}
        else "computation_multi"
    )
    assert told[0][2] == (
        f"{kind} 'make' returned the str 'ab'; expected an iterable of outputs or None: "
        "return ['ab'] for one output"
    )
    assert told[4][2].startswith(
        f"{kind} 'make' returned the int 5; expected an iterable of outputs"
    )
    driven = Driven(made)
    for batch in chunks(made, sent, [cut] * len(sent)):
        driven.batch(batch)
    assert sorted(driven.outputs["in"]) == sorted(result.outputs)
    assert sorted(letter.error for letter in driven.tally.letters) == sorted(
        f"TypeError: {error}" for _, _, error in told
    )
    assert {letter.place.partition(":")[0] for letter in driven.tally.letters} == {
        "test_multiple_outputs.py"
    }


@pytest.mark.parametrize("returned", ["ab", None, 5, ("a", True, 1), {"a": 1, "b": 2}])
def test_what_is_not_a_pair_is_refused_with_what_to_return(returned: object) -> None:
    with pytest.raises(TypeError, match=r"expected \(output, save\), but got .*; return both"):
        pair_of(returned)


@pytest.mark.parametrize("returned", [("ab", True), ["ab", True]])
def test_one_text_is_refused_in_any_pair(returned: object) -> None:
    call = returning_list_over_state(lambda _message, _state: returned, "make", returns_save=True)
    with pytest.raises(
        TypeError, match="'make' returned the str 'ab'; expected an iterable of outputs or None"
    ):
        call(None, None)
