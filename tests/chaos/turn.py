"""A turn of a run: which application, in which processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parent / "applications"
APPLICATIONS = {
    name: _FOLDER / f"{name}.py"
    for name in (
        *("counting", "levels", "windows", "timers", "sessions", "asking", "joins"),
        *("files", "meeting"),
    )
}
"""Their files, by name."""
FILES, MEETING, PARTITIONS = "files", "meeting", "partitions"
WITH_LOGS = frozenset({FILES, MEETING})
"""Applications that read two files as well."""
WITH_LEVELS = frozenset({"levels", "windows", "sessions", "asking", "joins"})
"""Applications with several states in a path."""
WITH_TIME = frozenset({"windows", "timers", "sessions", "joins", FILES, MEETING})
"""Applications with outputs that come as time passes."""
WORD_COUNT, MARKET_SPREAD = "word-count", "market-spread"
TOGETHER, APART = "together", "apart"
KAFKA_TO_KAFKA, TCP_TO_KAFKA, KAFKA_TO_TCP = "kafka-to-kafka", "tcp-to-kafka", "kafka-to-tcp"
TOPIC_SOURCES = frozenset({KAFKA_TO_KAFKA, KAFKA_TO_TCP})
"""Shapes in which a topic of Kafka is the source."""
TOPIC_SINKS = frozenset({KAFKA_TO_KAFKA, TCP_TO_KAFKA})
"""Shapes in which a topic of Kafka is the sink."""
WITH_TOPICS = TOPIC_SOURCES | TOPIC_SINKS
WITHOUT_TOPICS = frozenset({TOGETHER, APART})
FILES_WITH_TOPICS = {
    name: _FOLDER / f"{file}.py"
    for name, file in {
        "counting": "topics",
        WORD_COUNT: "word_count_topics",
        MARKET_SPREAD: "market_spread_topics",
        PARTITIONS: "partitions",
    }.items()
}
"""Files of the applications that run in shapes with topics, by name."""
SHAPES = (TOGETHER, APART, KAFKA_TO_KAFKA, TCP_TO_KAFKA, KAFKA_TO_TCP)
"""`wallaroo run`, or `wallaroo gateway` and `wallaroo driver` with a network between them, from
port to port; or `wallaroo run` with topics."""


@dataclass(frozen=True)
class Turn:
    """An application, in a shape."""

    application: str = "counting"
    shape: str = TOGETHER

    def __str__(self) -> str:
        return f"{self.application}, {self.shape}"

    @property
    def exists(self) -> bool:
        """Whether the application can be in this shape."""
        if self.application == PARTITIONS:
            return self.shape in TOPIC_SOURCES
        files = FILES_WITH_TOPICS if self.shape in WITH_TOPICS else APPLICATIONS
        return self.application in files

    @property
    def file(self) -> Path:
        """File of the application."""
        if self.shape in WITH_TOPICS:
            return FILES_WITH_TOPICS[self.application]
        return APPLICATIONS[self.application]
