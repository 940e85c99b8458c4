"""Records of dead letters in a simulation, as a topic of dead letters gets them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from wallaroo.api.places import Place
from wallaroo.connectors.kafka.dead_letters import record_of_letter
from wallaroo.connectors.kafka.records import KafkaRecord
from wallaroo.connectors.kafka.stored import whole
from wallaroo.dataflow.results import preview
from wallaroo.dataflow.tracebacks import place_of_failure, traceback_of
from wallaroo.model.application import Application
from wallaroo.model.lost_messages import LostMessage
from wallaroo.user_code.exceptions import describe_error
from wallaroo.wire.records import FailedMessage

_NOTHING = nullcontext()


class SimulatedLetters:
    """Makes records of failed messages, if the application publishes dead letters.

    Args:
        application: The application.
        records: Gets them, by sink.
    """

    def __init__(self, application: Application, records: dict[str, list[KafkaRecord]]) -> None:
        self._application = application
        self._places = dict(places_of(application))
        to = application.dead_letters
        self._records = None if to is None else records[to.sink.name]
        self._sources = {one.name: one.source for one in application.pipelines}
        self._payload: bytes | None = None
        self._key: str | None = None

    def about(self, payload: Any) -> AbstractContextManager[None]:
        """Within the block, failures are those of the message that is *payload*."""
        if isinstance(payload, KafkaRecord):
            payload = whole(payload)
        return self._with(payload if isinstance(payload, bytes) else None)

    def at(self, key: Any) -> AbstractContextManager[None]:
        """Within the block, the message is at a state, where it has this *key*."""
        return self._with(self._payload, key)

    def timer(self, key: Any) -> AbstractContextManager[None]:
        """Within the block, a timer of *key* is called."""
        return self._with(None, key)

    def behind_state(self) -> AbstractContextManager[None]:
        """Within the block, messages have passed a state."""
        return self._with(None)

    def _with(self, payload: bytes | None, *keys: Any) -> AbstractContextManager[None]:
        return _NOTHING if self._records is None else self._known(payload, *keys)

    @contextmanager
    def _known(self, payload: bytes | None, *keys: Any) -> Iterator[None]:
        key = preview(keys[0], 100) if keys else None
        before, (self._payload, self._key) = (self._payload, self._key), (payload, key)
        try:
            yield
        finally:
            self._payload, self._key = before

    def add(
        self, pipeline: str, step: str, message: Any, why: BaseException | str, now_ns: int
    ) -> None:
        """Add the record of *message*: what *step* raised on it, or *why* it was refused."""
        if self._records is None:
            return
        place: object = self._places.get((pipeline, step.removeprefix("key of ")), "")
        text, traceback = str(why), ""
        if isinstance(why, BaseException):
            place = place_of_failure(why) or place
            text, traceback = describe_error(why)[:500], traceback_of(why)
        shown = preview(message)
        failed = FailedMessage(
            pipeline, step, str(place), text, shown, self._key, traceback=traceback
        )
        source, name = self._sources[pipeline], self._application.name
        lost = LostMessage(name, failed.storable(), now_ns, source, self._payload)
        self._records.append(record_of_letter(lost))


def places_of(application: Application) -> Iterator[tuple[tuple[str, str], Place]]:
    """Where the parts of the pipelines are defined, by the names of pipeline and part."""
    for pipeline in application.pipelines:
        yield (pipeline.name, "decoder"), pipeline.source.place
        for sink in pipeline.sinks:
            yield (pipeline.name, pipeline.encoder_of(sink)), sink.place
        for step in pipeline.trunk.walk():
            yield (pipeline.name, step.name), step.place
