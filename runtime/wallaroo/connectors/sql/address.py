"""The address of a database, with what is secret in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from wallaroo.connectors.sql.resolve import SQLSink
from wallaroo.connectors.variables import Variables
from wallaroo.errors import RuntimeFailure

if TYPE_CHECKING:
    from sqlalchemy import Engine


class Database:
    """The database of *sink*: how to reach it, and what is not to be shown.

    Args:
        sink: The sink.
        environment: Environment variables; None for those of the process.

    Raises:
        RuntimeFailure: The extra or the driver is not installed, or the address cannot be used.
    """

    def __init__(self, sink: SQLSink, environment: Mapping[str, str] | None = None) -> None:
        self._sink = sink
        self._variables = Variables(sink.name, environment)
        self.redacted = self._variables.redacted
        """A text without secrets."""
        self.engine = self._engine()
        """Connects to it."""

    def _engine(self) -> Engine:
        self._sink.check()
        import sqlalchemy

        text = self._variables.put_in(self._sink.url, "url")
        try:
            url = sqlalchemy.make_url(text)
            if self._sink.password_file is not None:
                url = url.set(password=self._password())
            if url.password:
                self._variables.hide(str(url.password))
            return sqlalchemy.create_engine(
                url,
                connect_args=dict(self._sink.options),
                poolclass=sqlalchemy.NullPool,
                hide_parameters=True,
                # else a statement for many rows, which cannot have equal keys twice
                use_insertmanyvalues=not self._sink.key,
            )
        except (sqlalchemy.exc.ArgumentError, TypeError, ValueError) as error:
            msg = f"sink {self._sink.name!r}: url cannot be used: {self.redacted(str(error))}"
            raise RuntimeFailure(msg) from None

    def _password(self) -> str:
        file = self._sink.password_file
        assert file is not None
        try:
            return file.read_text().strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            msg = f"{file}, which has the password of a database, cannot be read: {reason}"
            raise RuntimeFailure(msg) from None
