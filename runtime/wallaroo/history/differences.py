"""Differences between two states of an entity, and values on one line, from their plain form."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

ABSENT = {"$absent": True}
"""In the place of an entity, or a part of one, that is not there."""
_BRACKETS = {"$tuple": "()", "$set": "{}", "$frozenset": "{}"}
_TEXTS = ("$decimal", "$date", "$datetime", "$repr", "$type")
_MOST_CHARACTERS = 200


class Difference(NamedTuple):
    """A part of an entity that has changed."""

    place: str
    """Where it is, as in `.words['a'][0]`; empty for the entity itself."""
    before: Any
    after: Any

    def __str__(self) -> str:
        one, other = shown(self.before), shown(self.after)
        if one == other:  # of classes that have the same name
            one, other = f"{one} of {_module(self.before)}", f"{other} of {_module(self.after)}"
        arrow = f"{one} → {other}"
        if self.before == ABSENT:
            arrow = f"+ {shown(self.after)}"
        elif self.after == ABSENT:
            arrow = f"- {shown(self.before)}"
        return f"{self.place} {arrow}".lstrip()


def differences(before: Any, after: Any, place: str = "") -> Iterator[Difference]:
    """The smallest parts in which two plain values, as `to_plain` makes them, differ.

    Example:
        >>> before = {"$class": "app:Total", "words": {"a": 1, "b": 2}, "seen": [1]}
        >>> after = {"$class": "app:Total", "words": {"a": 2, "b": 2, "c": 1}, "seen": [1, 5]}
        >>> [str(one) for one in differences(before, after)]
        [".words['a'] 1 → 2", ".words['c'] + 1", '.seen[1] + 5']
        >>> [str(one) for one in differences({"$class": "app:Total"}, {"$class": "new:Total"})]
        ['Total() of app → Total() of new']
    """
    if is_same(before, after):
        return
    if _are_alike(before, after):
        for name in (*before, *(name for name in after if name not in before)):
            part = _place(before, name)
            yield from differences(
                before.get(name, ABSENT), after.get(name, ABSENT), f"{place}{part}"
            )
    elif isinstance(before, list) and isinstance(after, list):
        length = max(len(before), len(after))
        for index in range(length):
            one, other = (
                values[index] if index < len(values) else ABSENT for values in (before, after)
            )
            yield from differences(one, other, f"{place}[{index}]")
    elif (pairs := _pairs(before, after)) is not None:
        yield from differences(*pairs, place)
    else:
        yield Difference(place, before, after)


def is_same(one: Any, other: Any) -> bool:
    """Whether two plain values stand for the same, in whatever order their sets are.

    Example:
        >>> is_same({"$set": ["a", "b"]}, {"$set": ["b", "a"]}), is_same(1, True)
        (True, False)
    """
    return _canonical(one) == _canonical(other)


def shown(plain: Any, most: int = _MOST_CHARACTERS) -> str:
    """A plain value as one would write it in Python, on one line, cut off after some characters.

    Example:
        >>> shown({"$class": "app:Total", "words": {"a": [1, None]}, "at": {"$tuple": [1]}})
        "Total(words={'a': [1, None]}, at=(1,))"
        >>> shown({"$bytes": "aGk="}), shown("a" * 300, 10)
        ("b'hi'", "'aaaaaaaaa…")
    """
    text = _written(plain)
    return text if len(text) <= most else f"{text[:most]}…"


def _written(plain: Any) -> str:  # noqa: PLR0911 - one for each kind
    if isinstance(plain, list):
        return f"[{_joined(plain)}]"
    if not isinstance(plain, dict):
        return repr(plain)
    mark = next(iter(plain), "")
    content: Any = plain.get(mark)
    if plain == ABSENT:
        return "nothing"
    if mark == "$class":
        name = content.rpartition(":")[2].rpartition(".")[2]
        known = [*plain.get("$new", ()), *plain.get("$call", ()), *plain.get("$items", ())]
        parts = [_written(item) for item in known]
        for key, item in plain.items():
            if key in {"$state", "$pairs"}:
                parts.append(_written(item))
            elif not key.startswith("$"):
                parts.append(f"{key}={_written(item)}")
        return f"{name}({', '.join(parts)})"
    if mark in _BRACKETS:
        opening, closing = _BRACKETS[mark][0], _BRACKETS[mark][1]
        comma = "," if mark == "$tuple" and len(content) == 1 else ""
        items = list(map(_written, content))
        if mark != "$tuple":
            items.sort()
        text = f"{opening}{', '.join(items)}{comma}{closing}"
        return text if content or mark == "$tuple" else "set()"
    if mark == "$bytes":
        return repr(base64.b64decode(content))
    if mark in _TEXTS:
        return str(content)
    pairs = content if mark == "$dict" else plain.items()
    return f"{{{', '.join(f'{_written(key)}: {_written(item)}' for key, item in pairs)}}}"


def _module(plain: Any) -> str:
    """The module of the class of an object, if it is one."""
    return str(plain.get("$class", "")).partition(":")[0] if isinstance(plain, dict) else ""


def _joined(items: list[Any]) -> str:
    return ", ".join(map(_written, items))


def _are_alike(before: Any, after: Any) -> bool:
    """Whether both have parts by name: dictionaries with texts as keys, or objects of a class."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return False
    marks = [
        next((name for name in value if name.startswith("$")), None) for value in (before, after)
    ]
    if marks == [None, None]:
        return True
    return marks == ["$class", "$class"] and before["$class"] == after["$class"]


def _pairs(before: Any, after: Any) -> tuple[Any, Any] | None:
    """Contents of dictionaries with other keys than texts, by their keys as text, and the like."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return None
    if list(before) == list(after) == ["$dict"]:
        by_key = [{_written(k): v for k, v in one["$dict"]} for one in (before, after)]
        return _Keyed(by_key[0]), _Keyed(by_key[1])
    if list(before) == list(after) == ["$tuple"]:
        return before["$tuple"], after["$tuple"]
    return None


class _Keyed(dict[str, Any]):
    """Values by keys that are written as in Python already."""


def _place(before: Any, name: str) -> str:
    if isinstance(before, _Keyed):
        return f"[{name}]"
    if "$class" in before:
        return "" if name in {"$state", "$pairs", "$items", "$new", "$call"} else f".{name}"
    return f"[{name!r}]"


def _canonical(plain: Any) -> str:
    return json.dumps(_sorted(plain), sort_keys=True)


def _sorted(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_sorted(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    found = {key: _sorted(item) for key, item in plain.items()}
    for mark in ("$set", "$frozenset"):
        if list(found) == [mark]:
            return {mark: sorted(found[mark], key=json.dumps)}
    return found
