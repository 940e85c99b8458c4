"""The client of a schema registry: schemas are fetched once and kept."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from wallaroo.api.secret_files import secret_file
from wallaroo.codecs._http import NotThere, RegistryRefusal, Unanswered, ask
from wallaroo.codecs._settings import VARIABLE, settings_of
from wallaroo.codecs.waiting import waits
from wallaroo.errors import WallarooError, WallarooParameterError

T = TypeVar("T")

_LOG = logging.getLogger("wallaroo.codecs")


class SchemaRegistryError(WallarooError):
    """A schema registry does not answer, or has not what an encoder needs, in a simulation."""


class UnknownSchema(ValueError):
    """A message has the number of a schema that the registry does not have."""


@dataclass(frozen=True)
class Limits:
    """How much a client of a registry asks for, and how often."""

    request_s: float = 10.0
    """Time for one answer, in seconds; registries answer within milliseconds."""
    first_pause_s: float = 0.1
    """Pause after the first failure, in seconds; it doubles each time, so a restart of the registry
    costs little and an outage causes few requests."""
    longest_pause_s: float = 10.0
    """Longest pause, in seconds, so that messages move on soon after an outage."""
    warn_s: float = 10.0
    """Seconds between lines in the log while messages wait."""
    unknown_s: float = 10.0
    """Seconds for which a number that the registry does not know is not asked for again: bad
    messages cannot flood it, and a schema that was registered late is found soon."""
    kept: int = 1_000
    """Schemas, and unknown numbers, that are kept; a topic has a few."""
    depth: int = 16
    """References to references that are followed."""


@dataclass(frozen=True)
class Schema:
    """A schema of a registry."""

    id: int
    kind: str
    """`AVRO`, `JSON` or `PROTOBUF`."""
    text: str
    references: tuple[str, ...] = ()
    """Texts of the schemas that it refers to, each after those that it refers to itself."""


class SchemaRegistry:
    """A schema registry with Confluent's REST interface, for decoders and encoders.

    Nothing is asked before the first message. Each schema is fetched once in each process and kept.
    While the registry does not answer, or refuses the credentials, messages wait for it, with a
    line in the log every ten seconds: they do not become dead letters. In a simulation it is an
    error at once.

    Credentials are read from a file with lines `name=value`, which the environment variable
    `WALLAROO_SCHEMA_REGISTRY_SETTINGS` or `settings_file` names, whenever a schema is fetched.

    Args:
        url: Its address, or several of one registry with commas between them, which are tried in
            turn.
        settings_file: File with the settings, which take precedence over those of the environment
            variable's file.

    Raises:
        WallarooParameterError: The address is no URL, or contains a password.

    Example:
        >>> SchemaRegistry("http://127.0.0.1:8081")
        SchemaRegistry('http://127.0.0.1:8081')
    """

    def __init__(self, url: str, *, settings_file: str | os.PathLike[str] | None = None) -> None:
        self._urls = _checked_urls(url)
        self._file = settings_file
        secret_file(settings_file)
        self._limits = Limits()
        self._schemas: dict[int, Schema] = {}
        self._unknown: dict[int, float] = {}

    def __repr__(self) -> str:
        return f"SchemaRegistry({','.join(self._urls)!r})"

    def schema(self, schema: int) -> Schema:
        """Return the schema with the number *schema*; waits for it if the registry is away.

        Raises:
            UnknownSchema: The registry does not have it.
            SchemaRegistryError: The registry does not answer, and this does not wait.
        """
        if (found := self._schemas.get(schema)) is not None:
            return found
        if time.monotonic() < self._unknown.get(schema, 0.0):
            raise self._unknown_schema(schema)
        try:
            found = self._waiting(lambda: self._fetched(schema), f"the schema {schema}", NotThere)
        except NotThere:
            _keep(self._unknown, schema, time.monotonic() + self._limits.unknown_s, self._limits)
            raise self._unknown_schema(schema) from None
        _keep(self._schemas, schema, found, self._limits)
        return found

    def of_subject(self, subject: str, kind: str, text: str | None, *, register: bool) -> Schema:
        """Return a schema of *subject*; waits until the registry has it.

        Args:
            subject: Name of the subject.
            kind: Type that the schema must have.
            text: The schema; None for the newest one.
            register: Whether to register it.

        Raises:
            SchemaRegistryError: The registry does not answer, or does not have it, and this does
                not wait.
        """
        what = f"a schema of the subject {subject!r}"
        return self._waiting(lambda: self._of_subject(subject, kind, text, register=register), what)

    def _of_subject(self, subject: str, kind: str, text: str | None, *, register: bool) -> Schema:
        path = f"/subjects/{quote(subject, safe='')}"
        if text is None:
            answer = self._ask(f"{path}/versions/latest")
            schema = self._schema(answer, _number(answer, "id"))
        else:
            body = {"schema": text, **({} if kind == "AVRO" else {"schemaType": kind})}
            answer = self._ask(path + ("/versions" if register else ""), body)
            schema = Schema(_number(answer, "id"), kind, text)
        if schema.kind != kind:
            msg = f"its newest schema is of type {schema.kind}; the encoder writes {kind}"
            raise RegistryRefusal(msg)
        return schema

    def _fetched(self, schema: int) -> Schema:
        return self._schema(self._ask(f"/schemas/ids/{schema}"), schema)

    def _schema(self, answer: dict[str, Any], number: int) -> Schema:
        text, kind = answer.get("schema"), answer.get("schemaType") or "AVRO"
        if not isinstance(text, str) or not isinstance(kind, str):
            msg = "the answer has no schema"
            raise Unanswered(msg)
        found: dict[tuple[str, int], str] = {}
        self._follow(answer.get("references"), found, self._limits.depth)
        return Schema(number, kind, text, tuple(found.values()))

    def _follow(self, references: Any, found: dict[tuple[str, int], str], depth: int) -> None:
        """Fetch what *references* refer to, the innermost first."""
        for reference in references or ():
            subject, version = reference.get("subject"), _number(reference, "version")
            if (subject, version) in found:
                continue
            if not depth or len(found) >= self._limits.kept:
                msg = "the schema refers to too many others"
                raise Unanswered(msg)
            answer = self._ask(f"/subjects/{quote(str(subject), safe='')}/versions/{version}")
            self._follow(answer.get("references"), found, depth - 1)
            found[subject, version] = str(answer.get("schema"))

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask one address after the other, until one answers."""
        settings = settings_of(self._file)
        for number, url in enumerate(self._urls, 1):
            try:
                return ask(url + path, body, settings, self._limits.request_s)
            except Unanswered:
                if number == len(self._urls):
                    raise
        raise AssertionError

    def _waiting(self, request: Callable[[], T], what: str, *passed: type[Exception]) -> T:
        """Return the result of *request*; repeat it as long as it fails with others than *passed*.

        It is not subject to the time limit of a call, because it is no code of the application.
        """
        pause, began, warned = self._limits.first_pause_s, time.monotonic(), 0.0
        while True:
            try:
                return request()
            except passed:
                raise
            except (Unanswered, NotThere, RegistryRefusal) as error:
                reason = f"{self!r} has not given {what}: {error}"
            if not waits():
                raise SchemaRegistryError(reason)
            now = time.monotonic()
            if not warned or now - warned >= self._limits.warn_s:
                warned = now
                _LOG.warning("%s; messages have waited for it for %.0f s", reason, now - began)
            time.sleep(pause)
            pause = min(2 * pause, self._limits.longest_pause_s)

    def _unknown_schema(self, schema: int) -> UnknownSchema:
        return UnknownSchema(f"the message has the schema {schema}, which {self!r} does not have")


def _keep(kept: dict[int, Any], key: int, value: Any, limits: Limits) -> None:
    while len(kept) >= limits.kept:
        kept.pop(next(iter(kept)), None)
    kept[key] = value


def _number(answer: dict[str, Any], name: str) -> int:
    number = answer.get(name)
    if not isinstance(number, int):
        msg = f"the answer has no {name}"
        raise Unanswered(msg)
    return number


def _checked_urls(url: Any) -> tuple[str, ...]:
    if not isinstance(url, str):
        msg = f"the URL of the schema registry is {url!r}; expected a text"
        raise TypeError(msg)
    urls = tuple(part.strip().rstrip("/") for part in url.split(","))
    for one in urls:
        try:
            parts = urlsplit(one)
            bad = parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0
        except ValueError:
            bad, parts = True, urlsplit("")
        if "@" in one.partition("://")[2].partition("/")[0]:
            msg = (
                "the URL of the schema registry contains a password: write "
                "basic.auth.user.info=USER:PASSWORD to a file, and pass settings_file or set "
                f"{VARIABLE}"
            )
            raise WallarooParameterError(msg)
        if bad or parts.query or parts.fragment:
            msg = (
                f"the URL of the schema registry is {one!r}; expected one such as "
                "'http://127.0.0.1:8081'"
            )
            raise WallarooParameterError(msg)
    return urls
