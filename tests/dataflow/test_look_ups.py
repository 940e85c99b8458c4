"""Searches for entities: every key is found, in every page order, whatever happens meanwhile."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from datetime import date
from enum import Enum
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wallaroo
from wallaroo.dataflow.buckets import Bucket, Unloaded
from wallaroo.dataflow.look_ups import Search, Searches, keys_written
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.saved_entities import Saved
from wallaroo.resolution.application import resolve
from wallaroo.wire.look_ups import MOST_BYTES, PAGE_BYTES, LookUp, Page

STATES = ("totals", "names")
numbers = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
literals = st.recursive(
    st.none() | numbers | st.text(max_size=5) | st.binary(max_size=5),
    lambda keys: st.tuples(keys) | st.tuples(keys, keys),
    max_leaves=3,
)


def order(key: Any) -> str:
    """By this, keys are in order."""
    return key if isinstance(key, str) else f"{key!r}\0"


class Color(Enum):
    RED = 1
    BLUE = 2


class Unshowable:
    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise ValueError

    def __repr__(self) -> str:
        msg = "no way"
        raise SystemExit(msg)


class Count:
    def __init__(self) -> None:
        self.count = 0


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> str:
    return payload.decode()


@wallaroo.key_extractor
def itself(message: str) -> str:
    return message


@wallaroo.encoder
def encode(message: str) -> bytes:
    return message.encode()


def program() -> Program:
    """A program with the states of `STATES`."""
    stream = wallaroo.source("in", wallaroo.TCPSourceConfig("", 0, decode))
    for state in STATES:

        @wallaroo.state_computation(name=state, state=Count)
        def count(message: str, _count: Count) -> str:
            return message

        stream = stream.key_by(itself).to(count)
    sink = wallaroo.TCPSinkConfig("", 0, encode)
    return Program(resolve(wallaroo.build_application("Counting", stream.to_sink(sink))), 8)


PROGRAM = program()


def bucket_of(entities: dict[Any, Any], names: dict[Any, Any] | None = None) -> Bucket:
    return Bucket([entities, {} if names is None else names])


def searches(bucket: Bucket) -> Searches:
    return Searches(PROGRAM, bucket, lambda partition: 10 + partition)


def result(search: Search) -> Page:
    while True:
        try:
            next(search)
        except StopIteration as end:
            page: Page = end.value
            return page


def of_key(
    bucket: Bucket, text: str, state: str | None = STATES[0], *, literal: bool = False
) -> list[Any]:
    page = result(searches(bucket).search(LookUp(state, text, literal)))
    return [json.loads(one.text) for one in page.found]


def all_pages(bucket: Bucket, most: int, prefix: str = "") -> list[list[Any]]:
    """The entities of all pages."""
    pages, after = list[list[Any]](), None
    while True:
        asked = LookUp(STATES[0], prefix=prefix, after=after, most=most)
        page = result(searches(bucket).search(asked))
        pages.append([json.loads(one.text)["entity"] for one in page.found])
        if (after := page.end) is None:
            return pages


@given(st.lists(literals, unique_by=repr))
def test_every_key_is_found_as_python_shows_it(keys: Sequence[Any]) -> None:
    entities = {key: number for number, key in enumerate(keys)}
    for key, entity in entities.items():
        found = of_key(bucket_of(entities), repr(key), literal=True)
        assert [one["entity"] for one in found] == [entity]


@given(st.dictionaries(st.text() | st.integers(), st.integers()))
def test_every_key_is_found_as_text(entities: dict[Any, int]) -> None:
    for key, entity in entities.items():
        assert entity in [one["entity"] for one in of_key(bucket_of(entities), str(key))]


@pytest.mark.parametrize(
    "key", [Color.RED, date(2026, 3, 1), ("a", date(2026, 3, 1)), frozenset({"a", "b", "c"})]
)
@pytest.mark.parametrize("shown", [str, repr])
def test_keys_of_other_classes_are_found_among_others_as_they_are_shown(
    key: Any, shown: Any
) -> None:
    bucket = bucket_of({"a": 0, ("a", 1): 0, key: 1})
    assert [one["entity"] for one in of_key(bucket, shown(key))] == [1]
    assert [one["entity"] for one in of_key(bucket, shown(key), literal=True)] == [1]


def test_a_set_is_found_in_whatever_order_it_is_shown() -> None:
    bucket = bucket_of({frozenset({"a", "b"}): 1})
    for text in ("frozenset({'a', 'b'})", "frozenset({'b', 'a'})"):
        assert [one["entity"] for one in of_key(bucket, text)] == [1]


def test_a_text_that_is_a_number_is_both_unless_it_is_meant_as_python_shows_it() -> None:
    bucket = bucket_of({12: "number", "12": "text"})
    assert [one["entity"] for one in of_key(bucket, "12")] == ["text", "number"]
    assert [one["entity"] for one in of_key(bucket, "12", literal=True)] == ["number"]
    assert [one["entity"] for one in of_key(bucket, "'12'", literal=True)] == ["text"]


@pytest.mark.parametrize(
    "text", ["", "(", "[1]", "{1: 2}", "1if 2else 3", "a b", "\0", "(" * 3_000, "9" * 4_400]
)
def test_what_is_no_key_means_itself_alone(text: str) -> None:
    assert list(keys_written(text)) == [text]


def test_a_key_is_parsed_again_if_python_fails_because_other_threads_parse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = [SystemError("AST constructor recursion depth mismatch (before=36, after=35)")] * 2
    parse = ast.literal_eval

    def fails_twice(text: str) -> Any:
        if failures:
            raise failures.pop()
        return parse(text)

    monkeypatch.setattr(ast, "literal_eval", fails_twice)
    assert list(keys_written("12")) == ["12", 12]


def test_a_key_is_looked_up_in_all_states_and_says_which_chunk_each_has_seen() -> None:
    bucket = bucket_of({"ada": 1}, {"ada": 2, "bob": 3})
    page = result(searches(bucket).search(LookUp(None, "ada")))
    found = [(json.loads(one.text), one.chunk) for one in page.found]
    assert found == [
        ({"state": "totals", "key": "ada", "entity": 1}, 10),
        ({"state": "names", "key": "ada", "entity": 2}, 11),
    ]


@given(
    st.dictionaries(literals, st.integers(), max_size=40),
    st.integers(1, 9),
    st.text(alphabet="ab1", max_size=2),
)
def test_pages_have_each_entity_once_in_the_order_of_their_keys(
    entities: dict[Any, int], most: int, prefix: str
) -> None:
    pages = all_pages(bucket_of(entities), most, prefix)
    expected = sorted(filter(lambda key: str(key).startswith(prefix), entities), key=order)
    assert [one for page in pages for one in page] == [entities[key] for key in expected]
    assert all(len(page) == most for page in pages[:-1])


def test_thousands_of_keys_are_searched_in_many_slices_and_what_comes_and_goes_disturbs_none() -> (
    None
):
    entities: dict[Any, Any] = {f"k{number:05}": number for number in range(5_000)}
    search = searches(bucket_of(entities)).search(LookUp(STATES[0], prefix="k", most=100))
    slices = 0
    while True:
        try:
            next(search)
        except StopIteration as end:
            page = end.value
            break
        slices += 1
        del entities[f"k{slices - 1:05}"]
        entities[f"new{slices}"] = -1
    assert slices > 5_000 // 2_048
    shown = [json.loads(one.text)["entity"] for one in page.found]
    assert shown == sorted(shown)
    assert set(range(100)) - set(shown) <= set(range(slices))
    assert page.end == "k00099"


def test_a_page_of_large_entities_ends_early() -> None:
    entities = dict.fromkeys(range(5), "x" * (PAGE_BYTES // 2))
    assert [len(page) for page in all_pages(bucket_of(entities), 5)] == [2, 2, 1]


def test_entities_that_cannot_be_shown_or_loaded_say_why_and_leave_others_alone() -> None:
    bucket = bucket_of({"good": 1, "bad": Unshowable()})
    saved = Saved.of({"lost": 1})
    bucket.unloaded[0, "lost"] = Unloaded(STATES[0], "lost", saved, "ValueError: no")
    page = result(searches(bucket).search(LookUp(STATES[0])))
    bad, good, lost = (json.loads(one.text) for one in page.found)
    assert good["entity"] == 1
    assert "no way" in bad["error"]
    assert "cannot be loaded: ValueError: no" in lost["error"]
    assert "cannot be loaded" in of_key(bucket, "lost")[0]["error"]


def test_an_entity_that_is_too_large_to_be_shown_says_so() -> None:
    (found,) = of_key(bucket_of({"ada": "x" * 2 * MOST_BYTES}), "ada")
    error = (
        "the entity takes 2.0 MiB when saved, and what is looked up has 1 at most: `wallaroo state "
        "show` shows it"
    )
    assert found == {"state": STATES[0], "key": "ada", "error": error}


def test_a_state_that_the_application_does_not_have_has_no_entities() -> None:
    bucket = bucket_of({"ada": 1})
    assert of_key(bucket, "ada", "others") == []
    assert result(searches(bucket).search(LookUp("others"))) == Page([])
