"""Settings of the engine, from the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wallaroo.dataflow.call_timeout import CALL_LIMIT_S
from wallaroo.loading.loader import ApplicationRef


@dataclass(frozen=True)
class EngineSettings:
    """How the engine runs an application."""

    application: ApplicationRef
    """The application and its arguments."""
    master: str
    """Spark master URL."""
    workers: int = 1
    """Number of workers at the start: executors of a cluster; on local Spark, of which each
    partition is a process, the number of partitions of a new state directory."""
    memory: str = "1g"
    """Java heap of the driver."""
    everywhere: bool = False
    """Whether workers find the application at the driver's path, as in copies of one image."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the workers."""
    token: str | None = field(default=None, repr=False)
    """The gateway's token, for workers on machines without its file."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Additional Spark settings."""
    call_limit_s: float = CALL_LIMIT_S
    """Seconds that a function of the application may take for one message; 0 for no limit."""
    entity_limit_bytes: int = 64 * 1024**2
    """Bytes that an entity may take when it is saved; the message that lets it grow beyond becomes
    a dead letter. While it is saved, worker and gateway hold several copies of it."""
    state_bytes: int = 0
    """Bytes of memory that the entities of all partitions may take, in equal shares; others are on
    the local disk. 0 for no limit: all are in memory."""
