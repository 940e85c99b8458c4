"""Types of option values, for click."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import click

from wallaroo.api.addresses import Address, parse_address
from wallaroo.errors import UsageError
from wallaroo.observability.logs import parse_levels
from wallaroo.system.object_store import SCHEME, ObjectPath

_MOST = 1_000_000_000
_S3 = re.compile("s3[an]?://", re.IGNORECASE)
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class LocalPath(click.Path):
    """A path of this machine, and no URL, of which a folder such as `s3a:` would be made."""

    _instead = "a path on this machine, or of a volume"

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        """Check *value*."""
        if _ELSEWHERE.match(text := os.fspath(value)):
            self.fail(f"{text!r} is a URL; give {self._instead}", param, ctx)
        return super().convert(value, param, ctx)


class StatePlace(LocalPath):
    """A directory of this machine, or a folder of an object store, as `ObjectPath`."""

    _instead = "a path on this machine or of a volume, or s3a://BUCKET/FOLDER"

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        """Check *value*."""
        if isinstance(value, ObjectPath):
            return value
        if (found := _S3.match(text := os.fspath(value))) is None:
            return super().convert(value, param, ctx)
        if found[0] != SCHEME:
            location = SCHEME + text[found.end() :]
            self.fail(f"{text!r}: write {location} for state on S3", param, ctx)
        try:
            return ObjectPath.at(text)
        except UsageError as error:
            self.fail(str(error), param, ctx)


def on_this_machine(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Refuse state on an object store, for a command that needs a directory."""
    if isinstance(value, ObjectPath):
        msg = f"{value}: {ctx.command.name} needs a path on this machine, or of a volume"
        raise click.BadParameter(msg, ctx, param)
    return value


FILE = LocalPath(path_type=Path, dir_okay=False)
"""A file, as a click type."""
DIRECTORY = LocalPath(path_type=Path, file_okay=False)
"""A directory, as a click type."""


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


class AddressType(click.ParamType):  # type: ignore[type-arg]
    """`HOST:PORT`, as a click type."""

    name = "HOST:PORT"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Address:
        """Parse *value*, unless it is an address already."""
        if isinstance(value, Address):
            return value
        option = param.opts[0] if param else "address"
        try:
            return parse_address(str(value), option)
        except UsageError as error:  # click names the option, too
            self.fail(str(error).removeprefix(f"{option}: "), param, ctx)


class LevelsType(click.ParamType):  # type: ignore[type-arg]
    """Log levels, as a click type."""

    name = "LEVELS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check *value*."""
        try:
            parse_levels(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class SettingType(click.ParamType):  # type: ignore[type-arg]
    """`KEY=VALUE`, as a click type."""

    name = "KEY=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check *value*."""
        if "=" not in value:
            self.fail(f"{value!r} is not KEY=VALUE", param, ctx)
        return str(value)
