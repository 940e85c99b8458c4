"""Defaults of Avro's fields: the values that their JSON stands for, and one for each message.

fastavro puts the JSON of a schema into a message that lacks the field: a text for bytes, a number
for a time, and the same list into all messages.

Source: Avro specification 1.12, "Complex Types", "Records", `default`.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from wallaroo.codecs._avro_walk import RECORDS, resolved

_OF_JSON: Mapping[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "array": (list,),
    "map": (dict,),
    "record": (dict,),
    "error": (dict,),
    **dict.fromkeys(("string", "bytes", "fixed", "enum"), (str,)),
}
"""What defaults of each type are in JSON."""


def convert_defaults(schema: Any, named: Mapping[str, Any]) -> Callable[[Any], None] | None:
    """Replace the defaults in *schema*, which fastavro has parsed, by the values they stand for.

    Defaults that are not of their field's type stay as they are.

    Returns:
        What replaces the lists and dictionaries among them, in a value that was read, by copies;
        None if there are none.
    """
    fields = {
        id(field): field
        for part in (schema, *named.values())
        for field in _fields(part)
        if "default" in field
    }
    converted: dict[int, Any] = {}
    for number, field in fields.items():
        with contextlib.suppress(KeyError, TypeError, ValueError, RecursionError):
            converted[number] = _value(field["type"], field["default"], named)
    for number, value in converted.items():
        fields[number]["default"] = value
    defaults = (field["default"] for field in fields.values())
    shared = {id(default): default for default in defaults if isinstance(default, list | dict)}
    return _copying(shared) if shared else None


def _fields(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the fields that are defined in *schema*."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _fields(branch)
    elif isinstance(schema, dict):
        for field in schema.get("fields", ()):
            yield field
            yield from _fields(field["type"])
        for part in ("items", "values", "type"):
            yield from _fields(schema.get(part))


def _value(schema: Any, default: Any, named: Mapping[str, Any]) -> Any:
    """The value of *schema* that *default* stands for."""
    schema = _definition(schema, default, named)
    kind = schema["type"]
    if kind in RECORDS:
        given = {one["name"]: one["default"] for one in schema["fields"] if "default" in one}
        types = {one["name"]: one["type"] for one in schema["fields"]}
        given |= default
        return {name: _value(of, given[name], named) for name, of in types.items()}
    if kind == "array":
        return [_value(schema["items"], item, named) for item in default]
    if kind == "map":
        return {key: _value(schema["values"], item, named) for key, item in default.items()}
    return _plain(schema, kind, default)


def _definition(schema: Any, default: Any, named: Mapping[str, Any]) -> dict[str, Any]:
    """The definition of a type, or of the first branch that *default* fits."""
    while not isinstance(schema, dict) or schema["type"] not in _OF_JSON:
        if isinstance(schema, list):
            schema = next((one for one in schema if _fits(one, default, named)), schema[0])
        elif isinstance(schema, dict):
            schema = schema["type"]
        else:
            schema = named.get(schema, {"type": schema})
    return schema


def _fits(schema: Any, default: Any, named: Mapping[str, Any]) -> bool:
    schema = resolved(schema, named)
    kinds = _OF_JSON[schema if isinstance(schema, str) else schema["type"]]
    return isinstance(default, kinds) and (bool in kinds or not isinstance(default, bool))


def _plain(schema: Any, kind: str, default: Any) -> Any:
    from fastavro.read import LOGICAL_READERS

    if kind in {"bytes", "fixed"}:
        default = default.encode("latin-1")
    elif kind in {"float", "double"}:
        default = float(default)
    read = LOGICAL_READERS.get(f"{kind}-{schema.get('logicalType')}")
    return default if read is None else read(default, schema, schema)


def _copying(shared: Mapping[int, Any]) -> Callable[[Any], None]:
    def own(value: Any) -> None:
        items: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, dict):
            items = value.items()
        elif isinstance(value, list):
            items = enumerate(value)
        for at, item in items:
            if id(item) in shared:
                value[at] = copy.deepcopy(item)
            else:
                own(item)

    return own
