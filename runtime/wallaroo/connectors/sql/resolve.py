"""Tables of databases in the normal form of an application."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wallaroo.connectors.sql.config import SQLSinkConfig
from wallaroo.connectors.variables import VARIABLE
from wallaroo.errors import RuntimeFailure
from wallaroo.model.endpoints import Sink
from wallaroo.resolution.problems import one_of
from wallaroo.resolution.sinks import SinkContext

_URL = re.compile(r"(?P<dialect>\w+)(\+\w+)?://(?P<user>[^/@]*@)?(?P<rest>.*)", re.DOTALL)
_PASSWORD = re.compile(r"password|passwd|secret|sslkey", re.IGNORECASE)
"""Names of arguments that are secrets."""
_PACKAGES = {
    "mysqldb": "mysqlclient",
    "psycopg": "psycopg[binary]",
    "psycopg2": "psycopg2-binary",
    "pymysql": "pymysql",
}
"""What to install for a driver, by SQLAlchemy's name of it."""


@dataclass(frozen=True)
class SQLSink(Sink):
    """A sink that writes to a table; its outputs are packed rows."""

    connector = __package__
    url: str
    """Address of the database, in which variables are not replaced yet."""
    table: str
    schema: str | None = None
    key: tuple[str, ...] = ()
    """Columns by which rows are updated."""
    password_file: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Arguments of the driver."""
    sets_aside: bool = True
    """Whether outputs that are refused become dead letters."""

    @property
    def where(self) -> str:  # noqa: D102
        parts = _URL.fullmatch(self.url)
        database = self.url if parts is None else f"{parts['dialect']}://{parts['rest']}"
        return f"table {self.full_name} of {database.partition('?')[0]}"

    def check(self) -> None:
        """Check that the extra and the driver are installed.

        Raises:
            RuntimeFailure: They are not.
        """
        if importlib.util.find_spec("sqlalchemy") is None:
            msg = (
                f"sink {self.name!r} writes to a database, which requires the extra: "
                "pip install 'wallaroo[sql]'"
            )
            raise RuntimeFailure(msg)
        sqlalchemy: Any = importlib.import_module("sqlalchemy")
        driver = ""
        try:
            # the rest of the URL can have variables, which only the gateway knows
            dialect = sqlalchemy.make_url(f"{self.url.partition(':')[0]}://").get_dialect()
            driver = dialect.driver
            dialect.import_dbapi()
        except sqlalchemy.exc.ArgumentError as error:
            msg = f"sink {self.name!r}: url cannot be used: {error}"
        except ImportError as error:
            package = _PACKAGES.get(driver)
            msg = (
                f"sink {self.name!r} needs the driver of {self.where}, which is not installed: "
                f"{f'pip install {package!r}' if package else error}"
            )
        else:
            return
        raise RuntimeFailure(msg)

    @property
    def label(self) -> str:  # noqa: D102
        return f"table {self.full_name}"

    @property
    def full_name(self) -> str:
        """The table with its schema."""
        return self.table if self.schema is None else f"{self.schema}.{self.table}"


def sink(config: SQLSinkConfig[Any], context: SinkContext) -> SQLSink:
    """The sink that *config* describes."""
    encode = context.encode_rows()
    context.report(*_problems(config))
    return SQLSink(
        context.name,
        encode,
        context.place,
        str(config.url),
        str(config.table),
        config.schema,
        tuple(config.key),
        config.password_file,
        config.options,
        config.on_refused == "set-aside",
        skips_lost=config.on_lost == "skip",
    )


def _problems(config: SQLSinkConfig[Any]) -> Iterator[str]:
    """Mistakes in *config*, besides its encoder."""
    wanted = "expected an address such as 'postgresql+psycopg://app@db.example.org/shop'"
    parts = _URL.fullmatch(config.url) if isinstance(config.url, str) else None
    if parts is None:
        yield f"url is {config.url!r}; {wanted}"
    elif ":" in (parts["user"] or "") and not VARIABLE.search(parts["user"].partition(":")[2]):
        yield "url contains a password; write it to a file and pass password_file"
    for name in ("table", "schema"):
        value = getattr(config, name)
        if not (isinstance(value, str) and value) and (name == "table" or value is not None):
            yield f"{name} is {value!r}; expected a name"
    if isinstance(config.key, str):
        yield f"key is the text {config.key!r}; expected a list of columns: [{config.key!r}]"
    yield from one_of("on_refused", config.on_refused, "set-aside", "wait")
    yield from one_of("on_lost", config.on_lost, "stop", "skip")
    for name in config.options:
        if _PASSWORD.fullmatch(str(name)):
            yield f"options has {name!r}, a secret: write it to a file, and pass password_file"
