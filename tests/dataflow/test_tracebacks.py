from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wallaroo.api.places import RUNTIME
from wallaroo.dataflow.tracebacks import MAX_CHARACTERS, place_of_failure, traceback_of

SOURCE = """\
import collections
import json


def parse(payload):
    return json.loads(payload)  # line 6


def decode(payload):
    try:
        return parse(payload)
    except ValueError as error:
        raise LookupError("no such thing") from error  # line 13


def recurse(payload):
    return recurse(payload)  # line 17


Pair = collections.namedtuple("Pair", "one two")


def pair(payload):
    return Pair(1)  # line 24


def own_error(payload):
    class Odd(Exception):
        def __str__(self):
            raise TypeError

    raise Odd
"""


def failing(function: str, payload: Any = b"{", file: str = "/srv/app/votes.py") -> BaseException:
    """What *function* of the application raises."""
    functions: dict[str, Callable[[Any], Any]] = {}
    exec(compile(SOURCE, file, "exec"), functions)
    with pytest.raises(Exception) as raised:  # noqa: PT011
        functions[function](payload)
    error = raised.value
    assert error.__traceback__ is not None
    return error.with_traceback(error.__traceback__.tb_next)  # without this function


@pytest.mark.parametrize(
    ("function", "place"),
    [
        ("parse", "votes.py:6"),  # and not json/decoder.py
        ("decode", "votes.py:13"),
        ("pair", "votes.py:24"),  # and not <string>
        ("recurse", "votes.py:17"),
    ],
)
def test_the_place_is_the_innermost_line_of_the_application(function: str, place: str) -> None:
    assert str(place_of_failure(failing(function))) == place


def test_the_traceback_has_the_causes_and_the_lines_below_the_application() -> None:
    text = traceback_of(failing("decode"))
    assert text.count("Traceback (most recent call last):") == 2
    assert 'json/decoder.py", line ' in text
    assert "The above exception was the direct cause of the following exception:" in text
    assert text.endswith("LookupError: no such thing\n")
    assert str(Path(RUNTIME)) not in text


def test_notes_are_part_of_it() -> None:
    error = failing("parse")
    error.add_note("of the first sender")
    assert traceback_of(error).endswith("\nof the first sender\n")


def test_a_recursion_is_cut_in_the_middle() -> None:
    text = traceback_of(failing("recurse"))
    assert "  […]\n" in text
    assert len(text) < 2 * MAX_CHARACTERS


def test_an_error_whose_text_cannot_be_made_is_named() -> None:
    assert "(its __str__ raises TypeError)" in traceback_of(failing("own_error"))


def test_nothing_but_the_runtime_has_no_traceback() -> None:
    error = ValueError("never raised")
    assert traceback_of(error) == ""
    assert place_of_failure(error) is None


@given(depth=st.integers(0, 6), text=st.text(max_size=3_000))
def test_it_is_bounded_whatever_the_error(depth: int, text: str) -> None:
    error: BaseException | None = None
    for _ in range(depth + 1):
        previous, error = error, failing("parse")
        error.__cause__ = previous
        error.add_note(text)
    assert error is not None
    assert len(traceback_of(error)) <= MAX_CHARACTERS + len("\n  […]\n")
    json.dumps(traceback_of(error))
