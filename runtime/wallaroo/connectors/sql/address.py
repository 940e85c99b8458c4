"""The address of a database, with what is secret in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from wallaroo.connectors.sql.resolve import SQLSink
from wallaroo.connectors.variables import VARIABLE
from wallaroo.errors import RuntimeFailure

if TYPE_CHECKING:
    from sqlalchemy import Engine

_LEAST_SECRET = 4
"""Letters of a secret that are worth hiding: shorter ones occur by chance."""


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
        self._secrets: list[str] = []
        self.engine = self._engine(os.environ if environment is None else environment)
        """Connects to it."""

    def redacted(self, text: str) -> str:
        """*text* without secrets."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "…")
        return text

    def _engine(self, environment: Mapping[str, str]) -> Engine:
        try:
            import sqlalchemy
        except ImportError:
            msg = (
                f"sink {self._sink.name!r} writes to a database, which requires the extra: "
                "pip install 'wallaroo[sql]'"
            )
            raise RuntimeFailure(msg) from None
        text = VARIABLE.sub(lambda found: self._variable(found[1], environment), self._sink.url)
        try:
            url = sqlalchemy.make_url(text)
            if self._sink.password_file is not None:
                url = url.set(password=self._password())
            if url.password:
                self._note_secret(str(url.password))
            return sqlalchemy.create_engine(
                url,
                connect_args=dict(self._sink.options),
                poolclass=sqlalchemy.NullPool,
                hide_parameters=True,
            )
        except ImportError as error:
            msg = (
                f"sink {self._sink.name!r} needs the driver of {self._sink.where}, which is not "
                f"installed: {error}"
            )
        except (sqlalchemy.exc.ArgumentError, TypeError, ValueError) as error:
            msg = f"sink {self._sink.name!r}: url cannot be used: {self.redacted(str(error))}"
        raise RuntimeFailure(msg)

    def _variable(self, name: str, environment: Mapping[str, str]) -> str:
        if name not in environment:
            msg = f"sink {self._sink.name!r}: url needs the environment variable {name}: set it"
            raise RuntimeFailure(msg)
        self._note_secret(environment[name])
        return environment[name]

    def _note_secret(self, secret: str) -> None:
        if len(secret) >= _LEAST_SECRET:
            self._secrets.append(secret)

    def _password(self) -> str:
        file = self._sink.password_file
        assert file is not None
        try:
            return file.read_text().strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            msg = f"{file}, which has the password of a database, cannot be read: {reason}"
            raise RuntimeFailure(msg) from None
