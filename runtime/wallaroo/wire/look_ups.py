"""Look-ups of entities: the driver asks, by way of the gateway, all partitions of a query.

Each partition answers for the keys that it has, and says as of which chunk each entity is. The
gateway waits until these chunks are published, as they would be run again after a failure.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

ASK, ANSWER, ANSWERS = b"Q", b"I", b"G"
"""First bytes of frames: a question, from the driver to the gateway and on to all partitions; what
one of them answers; and all answers, for the driver."""
_ASK = struct.Struct(">Q")
_ANSWER = struct.Struct(">QQ")
_ANSWERS = struct.Struct(">QI")
MOST_ON_PAGE = 1_000
"""Entities of a page at most."""
MOST_BYTES = 1024 * 1024
"""Bytes of an entity, as a pickle, at most."""
PAGE_BYTES = 1024 * 1024
"""Bytes of entities, as JSON, after which a page of one partition ends, and an answer."""


class LookUp(NamedTuple):
    """A question for the entities of one key, or for a page of those of one state."""

    state: str | None = None
    """Name of the state; None for all states, if there is a key."""
    key: str | None = None
    """The key as text, or as Python shows it; None for a page."""
    literal: bool = False
    """Whether the key is only meant as Python shows it: `12` is the number, `'12'` is text."""
    prefix: str = ""
    """How the keys of a page begin, as text."""
    after: str | None = None
    """The `end` of the page before; None for the first page."""
    most: int = 100
    """Entities on a page at most."""


class Found(NamedTuple):
    """What is known of a key."""

    chunk: int
    """The last chunk that its state has seen; 0 for none since the process began."""
    order: str
    """A text by which keys are in order: the key, or what Python shows for one that is no text."""
    text: str
    """JSON of the result of `entity_json`; or of `state`, `key` and an `error` if there is one."""


class Page(NamedTuple):
    """What one partition answers to a look-up."""

    found: Sequence[Found] = ()
    end: str | None = None
    """The `order` up to which these are all; None if there is no other page."""


def pack_ask(number: int, asked: Sequence[LookUp]) -> tuple[bytes, ...]:
    """The parts of a frame that asks all partitions."""
    return ASK, _ASK.pack(number), json.dumps(asked).encode()


def number_of(frame: bytes) -> int:
    """The number of a question."""
    return int(_ASK.unpack_from(frame, 1)[0])


def ask_in(frame: bytes) -> tuple[int, list[LookUp]]:
    """The number of the question, and what a frame of `pack_ask` asks.

    Example:
        >>> ask_in(b"".join(pack_ask(7, [LookUp("totals", "ada")])))
        (7, [LookUp(state='totals', key='ada', literal=False, prefix='', after=None, most=100)])
    """
    return number_of(frame), [LookUp(*one) for one in json.loads(frame[1 + _ASK.size :])]


def pack_answer(number: int, pages: Sequence[Page]) -> tuple[bytes, ...]:
    """The parts of a frame that answers a question."""
    newest = max((one.chunk for page in pages for one in page.found), default=0)
    return ANSWER, _ANSWER.pack(number, newest), json.dumps(pages).encode()


class Answer(NamedTuple):
    """What a frame of `pack_answer` says, but for its pages."""

    number: int
    newest: int
    """The last chunk that one of the entities has seen."""


def answer_in(frame: bytes) -> Answer:
    """The beginning of an answer, which is quickly read."""
    return Answer(*_ANSWER.unpack_from(frame, 1))


def pages_in(frame: bytes) -> list[Page]:
    """The pages of an answer.

    Example:
        >>> page = Page([Found(3, "'ada'", "{}")], end="'ada'")
        >>> pages_in(b"".join(pack_answer(7, [page]))) == [page]
        True
    """
    pages = json.loads(frame[1 + _ANSWER.size :])
    return [Page([Found(*one) for one in found], end) for found, end in pages]


class Answers(NamedTuple):
    """What all partitions have answered; all of it is published."""

    frames: Sequence[bytes]
    ends: Mapping[int, int]
    """By chunk, from the last one that was published when they were asked: the offset after its
    last message."""


def pack_answers(number: int, answers: Answers | None) -> tuple[bytes, ...]:
    """The parts of a frame with all answers; None if the partitions were not there."""
    if answers is None:
        return ANSWERS, _ANSWERS.pack(number, 0)
    frames, ends = answers
    head = json.dumps([[len(frame) for frame in frames], [*ends.items()]]).encode()
    return ANSWERS, _ANSWERS.pack(number, len(head)), head, *frames


def answers_in(frame: bytes) -> tuple[int, Answers | None]:
    """The number of the question, and what a frame of `pack_answers` says.

    Example:
        >>> answers = Answers([b"one", b"other"], ends={3: 40, 4: 50})
        >>> answers_in(b"".join(pack_answers(7, answers))) == (7, answers)
        True
    """
    number, size = _ANSWERS.unpack_from(frame, 1)
    place = 1 + _ANSWERS.size + size
    if not size:
        return number, None
    lengths, ends = json.loads(frame[place - size : place])
    places = itertools.pairwise(itertools.accumulate(lengths, initial=place))
    return number, Answers([frame[start:end] for start, end in places], dict(ends))


def merged(asked: Sequence[LookUp], answers: Answers) -> list[dict[str, Any]]:
    """What all partitions have answered, by look-up.

    Returns:
        For each look-up, or for the first ones if there is much to tell: `found`, the entities in
        the order of their keys, each with `position`, the offset as of which it is; `position`,
        since which all of them are; and `next`, the `after` of the next page, or None.
    """
    pages = zip(*map(pages_in, answers.frames), strict=False)
    results, since = list[dict[str, Any]](), min(answers.ends)
    for one, of_partitions in zip(asked, pages, strict=False):
        found = [each for page in of_partitions for each in page.found]
        # behind the first end, entities of that partition may be missing
        end = min((page.end for page in of_partitions if page.end is not None), default=None)
        shown = [each for each in found if end is None or each.order <= end]
        shown.sort(key=lambda each: each.order)
        if one.key is None and len(shown) > one.most:
            shown = shown[: one.most]
            end = shown[-1].order
        # an entity that has seen no chunk since then is as of what was published then
        positions = [answers.ends[max(each.chunk, since)] for each in shown]
        entities = [
            {**json.loads(each.text), "position": position}
            for each, position in zip(shown, positions, strict=True)
        ]
        results.append({"found": entities, "position": answers.ends[since], "next": end})
    return results
