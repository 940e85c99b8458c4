"""All metrics. Names follow Prometheus's conventions; units are seconds and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LATENCY_BOUNDS_S = (
    *(0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015),
    *(0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0),
    *(7.5, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 300.0, 600.0, 1800.0),
)
"""Upper bounds of latency buckets: fine-grained in the usual range, up to half an hour for a
backlog."""
PUBLICATION_BOUNDS_MESSAGES = (1.0, 10.0, 100.0, 1e3, 1e4, 3e4, 1e5, 3e5, 1e6, 3e6)
PUBLICATION_BOUNDS_S = (
    *(0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0, 10.0, 30.0, 60.0),
)
EPOCH_BOUNDS_S = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True)
class Metric:
    """One metric.

    Example:
        >>> SOURCE_MESSAGES.name, SOURCE_MESSAGES.labels
        ('wallaroo_source_messages_total', ('source',))
    """

    name: str
    """Its name in Prometheus."""
    kind: Literal["counter", "gauge", "histogram", "summary"]
    help: str
    """Description in a sentence."""
    labels: tuple[str, ...] = ()
    """Names of its labels."""
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets; a bucket without upper bound follows them."""


METRICS: dict[str, Metric] = {}
"""All metrics by name."""


def _metric(
    name: str,
    kind: Literal["counter", "gauge", "histogram", "summary"],
    text: str,
    *labels: str,
    bounds: tuple[float, ...] = (),
) -> Metric:
    metric = METRICS[name] = Metric(name, kind, text, labels, bounds)
    return metric


# from the gateway: counters are stored in the transaction that publishes chunks
SOURCE_MESSAGES = _metric(
    "wallaroo_source_messages_total",
    "counter",
    "Messages accepted, that is, stored on disk.",
    "source",
)
BACKLOG_MESSAGES = _metric(
    "wallaroo_backlog_messages", "gauge", "Messages accepted but not processed yet.", "source"
)
BACKLOG_BYTES = _metric(
    "wallaroo_backlog_bytes", "gauge", "Bytes of messages in the journal on disk."
)
BACKLOG_SECONDS = _metric(
    "wallaroo_backlog_seconds",
    "gauge",
    "Seconds for which the oldest message of the backlog has been waiting.",
)
ARCHIVE_WAITING = _metric(
    "wallaroo_archive_waiting", "gauge", "Files of the log that wait for the archive."
)
ARCHIVE_LOST = _metric(
    "wallaroo_archive_lost_total",
    "counter",
    "Files of the log that were removed without having been archived.",
)
CONNECTIONS = _metric("wallaroo_connections", "gauge", "Open connections of senders.")
STEP_MESSAGES = _metric(
    "wallaroo_step_messages_total", "counter", "Input messages of a step.", "pipeline", "step"
)
STEP_RESULTS = _metric(
    "wallaroo_step_results_total",
    "counter",
    "Output messages, or encoded outputs, of a step.",
    "pipeline",
    "step",
)
STEP_SECONDS = _metric(
    "wallaroo_step_duration_seconds",
    "summary",
    "Seconds that a step takes per message, for a sample of its messages.",
    "pipeline",
    "step",
)
SET_ASIDE = _metric(
    "wallaroo_set_aside_messages_total",
    "counter",
    "Messages removed from the stream because a step raised on them.",
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
    "Messages that came after their windows had closed, or too late for a join.",
    "pipeline",
    "step",
)
OPEN_WINDOWS = _metric(
    "wallaroo_open_windows",
    "gauge",
    "Open windows with messages; for a join, the messages that it keeps.",
    "state",
)
WATERMARK = _metric(
    "wallaroo_watermark_seconds",
    "gauge",
    "The latest watermark of a key of the windows or the join, in seconds since the Unix epoch.",
    "state",
)
LATENCY = _metric(
    "wallaroo_latency_seconds",
    "histogram",
    "Seconds from the arrival of a message until its outputs are on disk, ready to be sent.",
    "pipeline",
    bounds=LATENCY_BOUNDS_S,
)
SINK_MESSAGES = _metric(
    "wallaroo_sink_messages_total",
    "counter",
    "Outputs delivered to the sink; refused ones do not count.",
    "sink",
)
SINK_WAITING = _metric(
    "wallaroo_sink_waiting_messages", "gauge", "Outputs on disk that are not delivered yet.",
    "sink",
)  # fmt: skip
KAFKA_LAG = _metric(
    "wallaroo_kafka_lag_messages",
    "gauge",
    "Records of the partition that the source has not read yet, as of the last fetch.",
    "source",
    "topic",
    "partition",
)
KAFKA_SOURCE_BYTES = _metric(
    "wallaroo_kafka_source_bytes_total",
    "counter",
    "Bytes of records read from the topic since the gateway started.",
    "source",
)
KAFKA_SOURCE_ERRORS = _metric(
    "wallaroo_kafka_source_errors_total",
    "counter",
    "Errors that the source's Kafka client reported, and failed attempts to read, since the "
    "gateway started.",
    "source",
)
KAFKA_SINK_BYTES = _metric(
    "wallaroo_kafka_sink_bytes_total",
    "counter",
    "Bytes of records written to the topic since the gateway started.",
    "sink",
)
KAFKA_SINK_ERRORS = _metric(
    "wallaroo_kafka_sink_errors_total",
    "counter",
    "Errors that the sink's Kafka client reported, and failed attempts to write, since the "
    "gateway started.",
    "sink",
)
KAFKA_TRANSACTIONS = _metric(
    "wallaroo_kafka_transactions_total",
    "counter",
    "Transactions that the sink has committed since the gateway started.",
    "sink",
)
SSE_VIEWERS = _metric(
    "wallaroo_sse_viewers", "gauge", "Viewers that are connected to the sink now.", "sink"
)
SSE_DISCONNECTED = _metric(
    "wallaroo_sse_disconnected_total",
    "counter",
    "Viewers disconnected because they did not keep up, since the gateway started.",
    "sink",
)
WEBHOOK_REQUESTS = _metric(
    "wallaroo_webhook_requests_total",
    "counter",
    "Requests of the sink since the gateway started, by answer: 2xx to 5xx, or none.",
    "sink",
    "answer",
)
SQL_ROWS = _metric(
    "wallaroo_sql_rows_total",
    "counter",
    "Rows that the sink has written to its table since the gateway started.",
    "sink",
)
SQL_TRANSACTIONS = _metric(
    "wallaroo_sql_transactions_total",
    "counter",
    "Transactions that the sink has committed since the gateway started.",
    "sink",
)
PARQUET_FILES = _metric(
    "wallaroo_parquet_files_total",
    "counter",
    "Files of Parquet that the sink has written since the gateway started.",
    "sink",
)
STATE_ENTITIES = _metric("wallaroo_state_entities", "gauge", "State entities.", "state")
STATE_EXPIRED = _metric(
    "wallaroo_state_expired_total",
    "counter",
    "Entities freed because they were idle for the time to live of their state.",
    "state",
)
STORED_ENTITIES = _metric(
    "wallaroo_state_stored_entities",
    "gauge",
    "State entities that are in workers' local stores, not in memory.",
    "state",
)
STORED_BYTES = _metric(
    "wallaroo_state_stored_bytes",
    "gauge",
    "Bytes of the files of workers' local stores.",
    "state",
)
STORED_READS = _metric(
    "wallaroo_state_stored_reads_total",
    "counter",
    "State entities that were read from workers' local stores.",
    "state",
)
STATE_BYTES = _metric(
    "wallaroo_state_log_bytes",
    "gauge",
    "Bytes of the log that stores state; states that are processed together share a log.",
    "state",
)

# from the driver: since it started
PUBLICATION_MESSAGES = _metric(
    "wallaroo_publication_messages",
    "histogram",
    "Messages per publication.",
    bounds=PUBLICATION_BOUNDS_MESSAGES,
)
PUBLICATION_SECONDS = _metric(
    "wallaroo_publication_seconds",
    "histogram",
    "Seconds that a publication spends in a phase: run (its chunks, from handing out the first), "
    "commit.",
    "phase",
    bounds=PUBLICATION_BOUNDS_S,
)
EPOCH_SECONDS = _metric(
    "wallaroo_epoch_end_seconds",
    "histogram",
    "Seconds for which the stream stands while an epoch ends.",
    bounds=EPOCH_BOUNDS_S,
)
EPOCH_AGE = _metric("wallaroo_epoch_age_seconds", "gauge", "Seconds since the epoch began.")
PUBLICATION_AGE = _metric(
    "wallaroo_publication_age_seconds", "gauge", "Seconds since the last publication."
)
PAUSED = _metric(
    "wallaroo_paused", "gauge", "1 while the run is paused and processes nothing, otherwise 0."
)
WORKERS_WANTED = _metric("wallaroo_workers_wanted", "gauge", "Requested number of workers.")
WORKERS_ALIVE = _metric("wallaroo_workers_alive", "gauge", "Workers that accept tasks.")
WORKERS_NEEDED = _metric(
    "wallaroo_workers_needed",
    "gauge",
    "Workers that the load needs, whatever the bounds; with `workers: {min, max}`.",
)
WORKERS_USED_CORES = _metric(
    "wallaroo_workers_used_cores",
    "gauge",
    "Cores that the workers use; with `workers: {min, max}`.",
)
WORKERS_NEEDED_CORES = _metric(
    "wallaroo_workers_needed_cores",
    "gauge",
    "Cores that arriving and waiting messages need; with `workers: {min, max}`.",
)
QUERY_RESTARTS = _metric(
    "wallaroo_query_restarts_total",
    "counter",
    "Number of times that the query failed and was restarted.",
)
