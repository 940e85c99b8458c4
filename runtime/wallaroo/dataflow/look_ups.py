"""Entities that are looked up while messages are processed.

A search is a generator that pauses every few keys, so that its caller can process messages between.
"""

from __future__ import annotations

import ast
import contextlib
import heapq
import json
import pickle
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from operator import itemgetter
from types import NoneType
from typing import Any

from wallaroo.dataflow.buckets import Bucket
from wallaroo.dataflow.json_codec import entity_json, to_plain
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.spilled_entities import SpilledEntities
from wallaroo.user_code.exceptions import describe_error, pass_interrupt
from wallaroo.wire.look_ups import MOST_BYTES, PAGE_BYTES, Found, LookUp, Page

Search = Generator[None, None, Page]

_KEYS = 2_048
"""Keys that are looked at between two pauses."""
_MISSING = object()
_SET = "frozenset("
_LITERAL_CHARACTERS = 4_000
"""A longer key is only meant as text."""
_LITERALS = (str, bytes, int, float, complex, bool, NoneType)
"""Classes of keys that `ast.literal_eval` reads."""
_PARSES = 3
"""Times that a text is parsed again after a SystemError, by which Python 3.11 fails now and then if
another thread parses at the same time (https://github.com/python/cpython/issues/106905)."""


class Searches:
    """Searches the entities of one partition.

    Args:
        program: The application.
        bucket: The entities.
        chunk_of: From the number of a state partition to the last chunk that it has seen.
    """

    def __init__(self, program: Program, bucket: Bucket, chunk_of: Callable[[int], int]) -> None:
        self._program, self._bucket, self._chunk_of = program, bucket, chunk_of

    def search(self, asked: LookUp) -> Search:
        """Search for what is *asked*; the result is a page."""
        numbers = self._program.partition_numbers
        states = [n for name, n in numbers.items() if asked.state in {name, None}]
        if asked.key is None and states:
            return self._page(states[0], asked)
        return self._of_key(states, asked.key or "", literal=asked.literal)

    def _of_key(self, states: Iterable[int], text: str, *, literal: bool) -> Search:
        found = list[Found]()
        candidates = list(keys_written(text, literal=literal))
        for number in states:
            known = [key for key in candidates if self._has(number, key)]
            if not (known or (literal and candidates)):
                for keys in self._all_keys(number):
                    others = [key for key in keys if not _is_literal(key)]
                    known += [key for key in others if is_written(key, text)]
                    yield
                known = list(dict.fromkeys(known))
            found += [one for key in known if (one := self._found(number, key)) is not None]
        return Page(found)

    def _page(self, number: int, asked: LookUp) -> Search:
        """The first keys in their order.

        Once there are enough, most of the others are passed over by one comparison.
        """
        after, prefix, most = asked.after, asked.prefix, asked.most
        high: str | None = None
        kept = list[tuple[str, Any]]()
        for keys in self._all_keys(number):
            kept += [
                (key, key)
                for key in keys
                if type(key) is str
                and (high is None or key < high)
                and (after is None or key > after)
                and key.startswith(prefix)
            ]
            if set(map(type, keys)) != {str}:
                others = [(_order(key), key) for key in keys if type(key) is not str]
                kept += [
                    (order, key)
                    for order, key in others
                    if (after is None or order > after) and _text(str, key).startswith(prefix)
                ]
            if len(kept) > 2 * most + _KEYS:
                kept = _first(kept, most + 1)
                high = kept[-1][0]
            yield
        kept = _first(kept, most + 1)
        page, found, size = kept[:most], list[Found](), 0
        for shown, (_, key) in enumerate(page, 1):
            if (one := self._found(number, key)) is not None:
                found.append(one)
                size += len(one.text)
            if size > PAGE_BYTES:
                page = page[:shown]
                break
            yield
        return Page(found, page[-1][0] if len(page) < len(kept) else None)

    def _has(self, number: int, key: Any) -> bool:
        found = self._bucket.peek(number, key, _MISSING) is not _MISSING
        return found or (number, key) in self._bucket.unloaded

    def _all_keys(self, number: int) -> Iterator[list[Any]]:
        """All keys of a state, some at a time, perhaps twice; chunks may run meanwhile."""
        entities, keys = self._bucket.entities[number], list[Any]()
        if isinstance(entities, SpilledEntities):
            yield from entities.key_pieces()
        else:
            keys += entities
        keys += [key for state, key in self._bucket.unloaded if state == number]
        for start in range(0, len(keys), _KEYS):
            yield keys[start : start + _KEYS]

    def _found(self, number: int, key: Any) -> Found | None:
        """What is known of a key; None if it is gone."""
        state, bucket = self._program.partitions[number], self._bucket
        problem, plain_key = None, _text(repr, key)
        try:
            plain_key = to_plain(key)
            if (entity := bucket.peek(number, key, _MISSING)) is not _MISSING:
                time = bucket.times.get((number, key))
                if (size := _saved_bytes(entity)) > MOST_BYTES:
                    problem = (
                        f"the entity takes {size / 1024**2:.1f} MiB when saved, and what is looked "
                        f"up has {MOST_BYTES // 1024**2} at most: `wallaroo state show` shows it"
                    )
                else:
                    text = json.dumps(entity_json(state.name, key, entity, time, state.version))
            elif (unloaded := bucket.unloaded.get((number, key))) is not None:
                problem = str(unloaded)
            else:
                return None
        except BaseException as error:
            pass_interrupt(error)
            problem = f"the entity cannot be shown as JSON: {describe_error(error)}"
        if problem is not None:
            text = json.dumps({"state": state.name, "key": plain_key, "error": problem})
        return Found(self._chunk_of(number), _order(key), text)


def _saved_bytes(entity: Any) -> int:
    """The bytes that an entity takes as a pickle, which is quicker than JSON; 0 if it has none."""
    try:
        return len(pickle.dumps(entity, protocol=5))
    except BaseException as error:
        pass_interrupt(error)
        return 0


def keys_written(text: str, *, literal: bool = False) -> Iterator[Any]:
    """The keys that a text may mean: itself, and the value that Python shows so.

    Args:
        text: The text.
        literal: Whether it does not mean itself.

    Example:
        >>> list(keys_written("12")), list(keys_written("('ada', 1)", literal=True))
        (['12', 12], [('ada', 1)])
    """
    if not literal:
        yield text
    if text in {"inf", "-inf"}:
        yield float(text)
    is_set = text.startswith(_SET) and text.endswith(")")
    if len(text) > _LITERAL_CHARACTERS:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the compiler, about what is no literal
            value = _value(text[len(_SET) : -1] if is_set else text)
        value = frozenset(value) if is_set else value
        hash(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return
    yield value


def _value(literal: str) -> Any:
    for _ in range(_PARSES):
        with contextlib.suppress(SystemError):
            return ast.literal_eval(literal)
    return ast.literal_eval(literal)


def _is_literal(key: Any) -> bool:
    return type(key) in _LITERALS or (type(key) is tuple and all(map(_is_literal, key)))


def _order(key: Any) -> str:
    """A text by which keys are in order: of a text itself, of others what Python shows for them."""
    return key if type(key) is str else f"{_text(repr, key)}\0"


def is_written(key: Any, text: str) -> bool:
    """Whether *text* is *key* as text, or as Python shows it.

    Example:
        >>> is_written(12, "12"), is_written(frozenset({"a", "b"}), "frozenset({'b', 'a'})")
        (True, True)
    """
    if text in {_text(str, key), _text(repr, key)}:
        return True
    return isinstance(key, frozenset) and key in keys_written(text)  # in whatever order


def _text(shown: Callable[[Any], str], key: Any) -> str:
    """*key* as text; nothing if its class fails to show it."""
    try:
        return str(shown(key))
    except BaseException as error:
        pass_interrupt(error)
        return ""


def _first(keys: list[tuple[str, Any]], most: int) -> list[tuple[str, Any]]:
    return heapq.nsmallest(most, dict.fromkeys(keys), key=itemgetter(0))
