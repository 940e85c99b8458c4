"""Types of option values and of arguments, for click."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from wallaroo.api.addresses import Address, parse_address
from wallaroo.errors import UsageError
from wallaroo.history.moments import Moment
from wallaroo.observability.logs import parse_levels
from wallaroo.system.object_store import SCHEME, ObjectPath, endpoint

_MOST = 1_000_000_000
_NEGATIVE = re.compile(r"-\d")
_S3 = re.compile("s3[an]?://", re.IGNORECASE)
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class PlaceType(click.Path):
    """A path of this machine, as a click type; a folder such as `s3a:` is not made of a URL.

    Args:
        stores: Whether a folder of an object store may be given, which becomes an `ObjectPath`.
        okay: `file_okay` or `dir_okay` of click.
    """

    def __init__(self, *, stores: bool = False, **okay: bool) -> None:
        super().__init__(path_type=Path, **okay)
        self._stores = stores

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        """Check *value*."""
        if isinstance(value, ObjectPath):
            return value
        text = os.fspath(value)
        if self._stores and (found := _S3.match(text)) is not None:
            if found[0] != SCHEME:
                location = SCHEME + text[found.end() :]
                self.fail(f"{text!r}: write {location} for a folder on S3", param, ctx)
            try:
                endpoint()
                return ObjectPath.at(text)
            except UsageError as error:
                self.fail(str(error), param, ctx)
        if _ELSEWHERE.match(text):
            of = " or of a volume, or s3a://BUCKET/FOLDER" if self._stores else ", or of a volume"
            self.fail(f"{text!r} is a URL; give a path on this machine{of}", param, ctx)
        return super().convert(value, param, ctx)


FILE = PlaceType(dir_okay=False)
"""A file."""
PLACE = PlaceType(file_okay=False, stores=True)
"""A directory, or a folder of an object store."""


def on_this_machine(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Refuse state on an object store, for a command that needs a directory."""
    if isinstance(value, ObjectPath):
        msg = f"{value}: {ctx.command.name} needs a path on this machine, or of a volume"
        raise click.BadParameter(msg, ctx, param)
    return value


class NumberType(click.FloatRange):
    """A number from 0 on that, in seconds, clocks can count up to, as a click type."""

    def __init__(self, *, positive: bool = False) -> None:
        super().__init__(0, min_open=positive)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Check *value*."""
        number = float(super().convert(value, param, ctx))
        if not number <= _MOST:  # or it is NaN
            self.fail(f"{value!r} is not a number up to {_MOST:,}", param, ctx)
        return number


class WithOptionalArgument(click.Command):
    """A command with an optional argument before those of the application."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse *args*; those behind `--` are the application's, whatever is missing before."""
        end = args.index("--") if "--" in args else len(args)
        if any(map(_NEGATIVE.match, args[:end])):  # no option, such as the key -5
            ctx.ignore_unknown_options = True
        left = super().parse_args(ctx, args[:end])
        ctx.params["app_args"] += tuple(args[end + 1 :])
        return left


class TextType(click.ParamType):  # type: ignore[type-arg]
    """Text that a function parses, as a click type.

    Args:
        name: What to write, as the help shows it.
        parse: Parses it, or raises `UsageError`.
    """

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse *value*, unless that has been done."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except UsageError as error:
            self.fail(str(error).removeprefix("address: "), param, ctx)


def _address(text: str) -> Address:
    return parse_address(text, "address")


def _levels(text: str) -> str:
    parse_levels(text)
    return text


def _setting(text: str) -> str:
    if "=" not in text:
        msg = f"{text!r} is not KEY=VALUE"
        raise UsageError(msg)
    return text


ADDRESS = TextType("HOST:PORT", _address)
"""An address."""
LEVELS = TextType("LEVELS", _levels)
"""Log levels."""
MOMENT = TextType("OFFSET|TIME", Moment.parse)
"""A message or a time."""
SETTING = TextType("KEY=VALUE", _setting)
"""A setting."""
