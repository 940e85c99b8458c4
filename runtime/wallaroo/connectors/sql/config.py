"""Configuration of sinks that are tables of databases."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from wallaroo.api.class_api import AnyEncoder
from wallaroo.api.connectors import AnySink
from wallaroo.api.functions import In_contra
from wallaroo.api.places import calling_place
from wallaroo.api.secret_files import secret_file


class SQLSinkConfig(AnySink[In_contra]):
    """A sink that writes rows to a table of a database, each output exactly once.

    The number of the last output is stored in the transaction that writes the rows, in the table
    `wallaroo_outputs`, which the sink creates. Requires the extra `wallaroo[sql]` and the package
    of a driver, such as `psycopg[binary]`.

    Args:
        url: Address of the database, as SQLAlchemy takes it: `postgresql+psycopg://app@db/shop`, or
            `sqlite:////var/lib/shop.db`. `${NAME}` stands for an environment variable of the
            gateway.
        table: Name of the table, which must exist.
        encoder: Encoder of the outputs. It returns a dict from names of columns to values; None
            writes nothing. Columns that are not in it get their defaults.
        schema: Name of the table's schema; None for the default of the database.
        key: Names of columns with a unique constraint: a row with the same values there is updated.
            Without them, each output is a new row.
        password_file: File with the password, which only the gateway reads; relative to the
            application's directory.
        options: Arguments of the driver's `connect`, such as `{"sslmode": "verify-full"}`.
        on_refused: What to do with outputs that the database refuses because of their values:
            `"set-aside"` as dead letters, or `"wait"` and try again.
        on_lost: What to do if the database has lost outputs that were delivered, because it was
            restored from a backup or failed over: `"stop"` writing with an error, or `"skip"` them
            with a warning.

    Example:
        >>> SQLSinkConfig("sqlite:////tmp/shop.db", "totals", dict, key=["item"]).table
        'totals'
    """

    connector = __package__

    def __init__(
        self,
        url: str,
        table: str,
        encoder: AnyEncoder[In_contra],
        *,
        schema: str | None = None,
        key: Sequence[str] = (),
        password_file: str | os.PathLike[str] | None = None,
        options: Mapping[str, Any] | None = None,
        on_refused: Literal["set-aside", "wait"] = "set-aside",
        on_lost: Literal["stop", "skip"] = "stop",
    ) -> None:
        self.url = url
        self.table = table
        self.encoder = encoder
        self.schema = schema
        self.key = key
        self.password_file = secret_file(password_file)
        self.options = dict(options or {})
        self.on_refused = on_refused
        self.on_lost = on_lost
        self.place = calling_place()
