"""The messages that a .proto file declares, with their indexes in Confluent's format."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|(?P<word>[\w.]+)|(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<sign>.)""",
    re.DOTALL | re.VERBOSE,
)
_BEFORE_GROUP = 4
"""Tokens of a group, from its name to its brace: name, =, number, {."""


def message_places(text: str) -> dict[str, tuple[int, ...]]:
    """Return the full name of each message in a .proto file, and its place.

    The place of a message is its number in the file; that of a message within another one follows
    that of the other one. Text can be a file descriptor in base64, too, as some clients register.

    Example:
        >>> message_places('''
        ...     syntax = "proto3"; package shop;
        ...     message Order { message Line { int32 count = 1; } repeated Line lines = 1; }
        ...     message Cancel { string order = 1; }  // message Old {}
        ... ''')
        {'shop.Order': (0,), 'shop.Order.Line': (0, 0), 'shop.Cancel': (1,)}
    """
    described = _described(text)
    return dict(_declared(_tokens(text)) if described is None else described)


def _described(text: str) -> Iterator[tuple[str, tuple[int, ...]]] | None:
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None
    return _nested(file.message_type, file.package, ())


def _nested(
    messages: Any, package: str, place: tuple[int, ...]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    for number, message in enumerate(messages):
        name = f"{package}.{message.name}" if package else message.name
        yield name, (*place, number)
        yield from _nested(message.nested_type, name, (*place, number))


def _tokens(text: str) -> list[str]:
    return [found[0] for found in _TOKEN.finditer(text) if found.lastgroup != "skip"]


def _declared(tokens: list[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    package = ""
    scopes: list[tuple[str, tuple[int, ...]] | None] = []
    """The braces that are open: messages with name and place, and others."""
    counts: dict[tuple[int, ...], int] = {}
    for at, token in enumerate(tokens):
        if token == "package" and not scopes and at + 1 < len(tokens):
            package = tokens[at + 1]
        elif token == "}":
            if scopes:
                scopes.pop()
        elif token == "{":
            name = _name_before(tokens, at)
            outer = next((scope for scope in reversed(scopes) if scope is not None), None)
            if name is None or (scopes and outer is None):
                scopes.append(None)
                continue
            within, place = outer or (package, ())
            number = counts.get(place, 0)
            counts[place] = number + 1
            found = (f"{within}.{name}" if within else name, (*place, number))
            scopes.append(found)
            yield found


def _name_before(tokens: list[str], brace: int) -> str | None:
    """The name of the message or group whose brace it is; None if it is that of something else."""
    if brace >= 2 and tokens[brace - 2] == "message":  # noqa: PLR2004
        return tokens[brace - 1]
    start = brace - _BEFORE_GROUP
    if start >= 0 and tokens[start] == "group" and tokens[brace - 2] == "=":
        return tokens[start + 1]
    return None
