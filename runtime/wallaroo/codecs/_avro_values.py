"""Finds values that Avro's logical types cannot represent, before they are encoded.

fastavro writes a time without a time zone as local time of the machine, and its error for a decimal
that is NaN or infinite does not name the field.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from wallaroo.codecs._avro_walk import RECORDS

Check = Callable[[Any, str], str | None]
"""From a value and its path to what is wrong with it."""


def check_of(schema: Any, named: Mapping[str, Any]) -> Check | None:
    """The check that finds such values in outputs of *schema*; None if it has no such type.

    Args:
        schema: The schema, as fastavro has parsed it.
        named: Named types that it refers to.

    Example:
        >>> check = check_of({"type": "long", "logicalType": "timestamp-millis"}, {})
        >>> check(datetime.datetime(2026, 3, 1), "$")
        'datetime.datetime(2026, 3, 1, 0, 0) has no time zone (tzinfo) - at `$`'
    """
    return _Checks(named).of(schema)


class _Checks:
    """The checks of the types of one schema."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._made: dict[str, Check | None] = {}

    def of(self, schema: Any) -> Check | None:
        """The check for *schema*; None if it needs none."""
        if isinstance(schema, str):
            return self._reference(schema)
        if isinstance(schema, list):
            return self._union(schema)
        if (make := _LOGICAL.get(schema.get("logicalType", ""))) is not None:
            return make(schema)
        kind = schema["type"]
        if kind in RECORDS:
            return self._record(schema)
        if kind in {"array", "map"}:
            return _of_items(self.of(schema["items" if kind == "array" else "values"]))
        return self.of(kind) if isinstance(kind, (dict, list)) else None

    def _reference(self, name: str) -> Check | None:
        if name not in self._made:
            return None if name not in self._named else self.of(self._named[name])
        # of a type within itself, whose check is not known yet
        return lambda value, path: None if (c := self._made[name]) is None else c(value, path)

    def _record(self, schema: Any) -> Check | None:
        self._made[schema["name"]] = None
        checks = {
            field["name"]: check
            for field in schema["fields"]
            if (check := self.of(field["type"])) is not None
        }

        def check_fields(value: Any, path: str) -> str | None:
            if not isinstance(value, dict):
                return None
            found = (c(value[n], f"{path}.{n}") for n, c in checks.items() if n in value)
            return next(filter(None, found), None)

        made = self._made[schema["name"]] = check_fields if checks else None
        return made

    def _union(self, branches: list[Any]) -> Check | None:
        checks = [self.of(branch) for branch in branches]
        if not any(checks):
            return None
        takes = [(self._takes(branch), c) for branch, c in zip(branches, checks, strict=True)]

        def check_branches(value: Any, path: str) -> str | None:
            found = [None if c is None else c(value, path) for fits, c in takes if fits(value)]
            return found[0] if found and all(found) else None

        return check_branches

    def _takes(self, schema: Any) -> Callable[[Any], bool]:
        """Whether a value may be one of *schema*, a branch of a union."""
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        if isinstance(schema, str):
            return lambda value: schema == "null" if value is None else False
        if "timestamp" in (logical := schema.get("logicalType", "")):
            return lambda value: isinstance(value, datetime.datetime)
        if logical == "decimal":
            return lambda value: isinstance(value, decimal.Decimal)
        if schema["type"] in RECORDS:
            needed = [field["name"] for field in schema["fields"] if "default" not in field]
            return lambda value: isinstance(value, dict) and all(n in value for n in needed)
        kinds = {"array": (list, tuple), "map": (dict,)}.get(schema["type"], ())
        return lambda value: isinstance(value, kinds)


def _of_items(check: Check | None) -> Check | None:
    if check is None:
        return None

    def check_items(value: Any, path: str) -> str | None:
        items: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, dict):
            items = value.items()
        elif isinstance(value, (list, tuple)):
            items = enumerate(value)
        return next(filter(None, (check(item, f"{path}[{at!r}]") for at, item in items)), None)

    return check_items


def _of_instants(_schema: Any) -> Check:
    def check_instant(value: Any, path: str) -> str | None:
        if isinstance(value, datetime.datetime) and value.utcoffset() is None:
            return f"{value!r} has no time zone (tzinfo) - at `{path}`"
        return None

    return check_instant


def _of_decimals(schema: Any) -> Check:
    scale, precision = schema.get("scale", 0), schema["precision"]
    limit = f"the precision is {precision}"

    def check_decimal(value: Any, path: str) -> str | None:
        if not isinstance(value, decimal.Decimal):
            return None
        if not value.is_finite():
            return f"{value!r} is not a finite number - at `{path}`"
        _, digits, exponent = value.as_tuple()
        if (places := -int(exponent)) > scale:
            return f"{value!r} has {places} decimal places; the scale is {scale} - at `{path}`"
        if value and (count := len(digits) + scale - places) > precision:
            of_scale = f" at scale {scale}" if scale else ""
            return f"{value!r} has {count} digits{of_scale}; {limit} - at `{path}`"
        return None

    return check_decimal


_LOGICAL: dict[str, Callable[[Any], Check]] = {
    "timestamp-millis": _of_instants,
    "timestamp-micros": _of_instants,
    "decimal": _of_decimals,
}
"""What makes the checks of logical types of their schemas."""
