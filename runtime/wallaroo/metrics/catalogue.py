"""Every metric there is. Names follow Prometheus's conventions; units are seconds and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LATENCY_BOUNDS_S = (
    *(0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0),
    *(7.5, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 300.0, 600.0, 1800.0),
)
"""Upper bounds of the classes of latencies: close where they lie in good days, up to half an hour
for a backlog."""
BATCH_BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)
BATCH_BOUNDS_MESSAGES = (1.0, 10.0, 100.0, 1e3, 1e4, 3e4, 1e5, 3e5, 1e6, 3e6)


@dataclass(frozen=True)
class Metric:
    """One metric.

    Example:
        >>> SOURCE_MESSAGES.name, SOURCE_MESSAGES.labels
        ('wallaroo_source_messages_total', ('source',))
    """

    name: str
    """As Prometheus shows it."""
    kind: Literal["counter", "gauge", "histogram", "summary"]
    help: str
    """What it is, in a sentence."""
    labels: tuple[str, ...] = ()
    """Names of its labels."""
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram's classes; one without an upper bound comes behind them."""


METRICS: dict[str, Metric] = {}
"""All of them by name."""


def _metric(
    name: str,
    kind: Literal["counter", "gauge", "histogram", "summary"],
    text: str,
    *labels: str,
    bounds: tuple[float, ...] = (),
) -> Metric:
    metric = METRICS[name] = Metric(name, kind, text, labels, bounds)
    return metric


# from the gateway: counters are on its disk, in the transaction that publishes a batch
SOURCE_MESSAGES = _metric(
    "wallaroo_source_messages_total", "counter", "Messages accepted: on disk.", "source"
)
BACKLOG_MESSAGES = _metric(
    "wallaroo_backlog_messages", "gauge", "Messages accepted and not processed yet.", "source"
)
BACKLOG_BYTES = _metric(
    "wallaroo_backlog_bytes", "gauge", "Bytes of messages that the journal holds on disk."
)
BACKLOG_SECONDS = _metric(
    "wallaroo_backlog_seconds", "gauge", "Seconds that the oldest message of the backlog waits."
)
CONNECTIONS = _metric("wallaroo_connections", "gauge", "Connections of senders open now.")
STEP_MESSAGES = _metric(
    "wallaroo_step_messages_total", "counter", "Messages that a step was given.", "pipeline", "step"
)
STEP_RESULTS = _metric(
    "wallaroo_step_results_total",
    "counter",
    "Messages, or encoded outputs, that came out of a step.",
    "pipeline",
    "step",
)
STEP_SECONDS = _metric(
    "wallaroo_step_duration_seconds",
    "summary",
    "Seconds that a step took for a message, over a sample of its messages.",
    "pipeline",
    "step",
)
SET_ASIDE = _metric(
    "wallaroo_set_aside_messages_total",
    "counter",
    "Messages taken out of the stream because a step raised on them.",
    "pipeline",
    "step",
)
UNKNOWN_KEY = _metric(
    "wallaroo_unknown_key_messages_total",
    "counter",
    "Messages dropped because their key is not listed.",
    "state",
)
LATE = _metric(
    "wallaroo_late_messages_total",
    "counter",
    "Messages dropped because their windows had closed.",
    "pipeline",
    "step",
)
LATENCY = _metric(
    "wallaroo_latency_seconds",
    "histogram",
    "Seconds from the arrival of a message until its outputs were on disk, to be sent.",
    "pipeline",
    bounds=LATENCY_BOUNDS_S,
)
SINK_MESSAGES = _metric(
    "wallaroo_sink_messages_total", "counter", "Outputs that the sink has taken.", "sink"
)
SINK_WAITING = _metric(
    "wallaroo_sink_waiting_messages", "gauge", "Outputs on disk that the sink has yet to take.",
    "sink",
)  # fmt: skip
STATE_ENTITIES = _metric("wallaroo_state_entities", "gauge", "State entities there are.", "state")
STATE_BYTES = _metric(
    "wallaroo_state_log_bytes",
    "gauge",
    "Bytes of the log that keeps state; states that are run together share one.",
    "state",
)

# from the driver: since it started
BATCH_MESSAGES = _metric(
    "wallaroo_batch_messages", "histogram", "Messages of a batch.", bounds=BATCH_BOUNDS_MESSAGES
)
BATCH_SECONDS = _metric(
    "wallaroo_batch_seconds",
    "histogram",
    "Seconds that a batch spent in a phase: wait (for messages), plan, log, run, commit.",
    "phase",
    bounds=BATCH_BOUNDS_S,
)
BATCH_LIMIT = _metric(
    "wallaroo_batch_limit_seconds", "gauge", "Seconds that a batch is to take at most."
)
BATCH_FIXED = _metric(
    "wallaroo_batch_fixed_seconds",
    "gauge",
    "Seconds that a batch takes whatever the number of its messages.",
)
CHECKPOINT_AGE = _metric(
    "wallaroo_checkpoint_age_seconds", "gauge", "Seconds since the last batch was committed."
)
WORKERS_WANTED = _metric("wallaroo_workers_wanted", "gauge", "Workers that there should be.")
WORKERS_ALIVE = _metric("wallaroo_workers_alive", "gauge", "Workers that take tasks.")
QUERY_RESTARTS = _metric(
    "wallaroo_query_restarts_total", "counter", "Times that the query failed and was started anew."
)
