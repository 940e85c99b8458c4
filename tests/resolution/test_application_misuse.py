"""What is given in the place of something else: told with what is due, and where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wallaroo
from wallaroo.api.builder import ApplicationBuilder
from wallaroo.errors import ApplicationError
from wallaroo.resolution.application import resolve

unchecked: Any = wallaroo
"""The API as an author has it who uses no type checker."""


class Decode:
    def header_length(self) -> int:
        return 4

    def payload_length(self, bs: bytes) -> int:
        return int.from_bytes(bs, "big")

    def decode(self, bs: bytes) -> str:
        return bs.decode()


class Encode:
    def encode(self, text: str) -> str:
        return text


class FirstLetter:
    def partition(self, text: str) -> str:
        return text[0]


class Fixed:
    """Works as it is: its methods need no instance."""

    @staticmethod
    def partition(text: str) -> str:
        return text[0]

    @staticmethod
    def encode(text: str) -> str:
        return text


class Count:
    def name(self) -> str:
        return "count"

    def compute(self, text: str, state: Any) -> tuple[str, bool]:
        return f"{text} {state}", True


class Repeat:
    def __init__(self, times: int) -> None:
        self.times = times

    def name(self) -> str:
        return "repeat"

    def compute(self, text: str) -> str:
        return text * self.times


class Nameless:
    def compute(self, text: str) -> str:
        return text


def plain(text: str) -> str:
    return text


SOURCE = wallaroo.TCPSourceConfig("", 0, Decode())
SINK = wallaroo.TCPSinkConfig("", 0, Encode())


def begun(source: Any = SOURCE) -> Any:
    return ApplicationBuilder("app").new_pipeline("lines", source)


def ended(step: Any) -> Any:
    return begun().to(step).done()


def by(key: Any, computation: Any = Count, name: Any = "counts") -> Any:
    return begun().to_state_partition(computation, list, name, key).done()


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "a decoder class": (
        lambda: begun(unchecked.TCPSourceConfig("", 0, Decode)).done(),
        ": decoder Decode: got the class Decode; expected an instance: Decode()",
    ),
    "a decoder class of a file": (
        lambda: begun(unchecked.FileSourceConfig("file", Decode, "lines")).done(),
        ": decoder Decode: got the class Decode; expected an instance: Decode()",
    ),
    "an encoder class": (
        lambda: begun().to_sink(unchecked.TCPSinkConfig("", 0, Encode)),
        ": encoder Encode: got the class Encode; expected an instance: Encode()",
    ),
    "an encoder for a decoder": (
        lambda: begun(unchecked.TCPSourceConfig("", 0, wallaroo.encoder(plain))).done(),
        ": the @encoder plain is not a decoder; decorate it with @decoder",
    ),
    "a partition class": (
        lambda: by(FirstLetter),
        ", step 'Count': key function FirstLetter: got the class FirstLetter; "
        "expected an instance: FirstLetter()",
    ),
    "a class without partition": (
        lambda: by(dict, Count()),
        ", step 'Count': the class dict is not a key function; decorate it with @partition",
    ),
    "a computation class with arguments": (
        lambda: ended(Repeat),
        ": the class Repeat cannot be instantiated: Repeat() raises TypeError: Repeat.__init__() "
        "missing 1 required positional argument: 'times'",
    ),
    "a computation class without a name": (
        lambda: ended(Nameless),
        ": the class Nameless has compute, so its name() must return the name of the step, but it "
        "raises AttributeError: 'Nameless' object has no attribute 'name'",
    ),
    "a decorator without its arguments": (
        lambda: ended(unchecked.computation(plain)),
        ": to expects a function decorated with @computation, but got the result of @computation "
        "without its arguments; write @computation(name='plain')",
    ),
    "a function for a name": (
        lambda: ended(unchecked.computation(name=plain)(plain)),
        ": the name of a step is the function plain; expected a str",
    ),
    "a function for the name of a state": (
        lambda: by(Fixed, Count, plain),
        ", step 'count': the name of the state is the function plain; expected a str",
    ),
    "a number for a format": (
        lambda: begun(
            unchecked.TCPSourceConfig(
                "", 0, unchecked.decoder(header_length=4, length_fmt=4)(plain)
            )
        ).done(),
        ": decoder plain: length_fmt is 4; expected a struct format or a function",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_was_given_what_is_due_and_where_is_told(case: str) -> None:
    make, due = CASES[case]
    with pytest.raises(ApplicationError) as raised:
        resolve(make().build())
    (problem,) = raised.value.problems
    place, _, told = problem.partition(": pipeline 'lines'")
    assert told == due
    file, line = place.split(":")
    assert (file, line.isdigit()) == ("test_application_misuse.py", True)


def test_a_class_whose_methods_need_no_instance_will_do() -> None:
    builder = begun().to_state_partition(Count, list, "counts", Fixed)
    resolve(builder.to_sink(unchecked.TCPSinkConfig("", 0, Fixed)).build())
