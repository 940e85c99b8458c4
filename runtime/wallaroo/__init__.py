"""Wallaroo's programming model on Apache Spark.

An application is a set of plain Python functions wired together in `application_setup(args)`;
`wallaroo run` streams framed messages through it on Spark Structured Streaming. This module exports
the API for applications; `wallaroo.testing` runs an application without Spark or sockets.
"""

import functools
import pickle
from typing import TYPE_CHECKING

from wallaroo.api.addresses import tcp_parse_input_addrs, tcp_parse_output_addrs
from wallaroo.api.aggregations import Aggregation, Window
from wallaroo.api.approximate import ApproxDistinct
from wallaroo.api.base_classes import (
    Computation,
    ComputationMulti,
    Decoder,
    Encoder,
    KeyExtractor,
    OctetDecoder,
    OctetEncoder,
    Partition,
    StateComputation,
    StateComputationMulti,
)
from wallaroo.api.builder import ApplicationBuilder, DeclaredApplication
from wallaroo.api.connectors import MessageSource, OutputSink
from wallaroo.api.durations import (
    Duration,
    hours,
    microseconds,
    milliseconds,
    minutes,
    nanoseconds,
    seconds,
)
from wallaroo.api.functions import (
    computation,
    computation_multi,
    decoder,
    encoder,
    key_extractor,
    partition,
)
from wallaroo.api.gathered_functions import computation_async, computation_batch
from wallaroo.api.joins import asof_join, interval_join, table_join
from wallaroo.api.migrations import migrate
from wallaroo.api.pipeline import Pipeline, WindowedPipeline, build_application, source
from wallaroo.api.ready_aggregations import (
    Aggregated,
    Aggregations,
    Collect,
    Count,
    First,
    Last,
    Max,
    Mean,
    Min,
    Sum,
    Top,
)
from wallaroo.api.repeatable import now, rng
from wallaroo.api.retries import retries
from wallaroo.api.state_functions import state_computation, state_computation_multi
from wallaroo.api.timers import Timers
from wallaroo.api.unsupported import WALLAROO, unsupported_names
from wallaroo.api.windows import count_windows, range_windows, session_windows
from wallaroo.api.worker_objects import once_per_worker
from wallaroo.connectors.csv.config import CSVSourceConfig
from wallaroo.connectors.files.config import FileSinkConfig, FileSourceConfig
from wallaroo.connectors.generators.config import GenSourceConfig
from wallaroo.connectors.http.config import HTTPSourceConfig
from wallaroo.connectors.kafka.config import (
    KafkaDeadLetters,
    KafkaSinkConfig,
    KafkaSourceConfig,
)
from wallaroo.connectors.kafka.options import (
    CustomKafkaSinkCLIParser,
    CustomKafkaSourceCLIParser,
    DefaultKafkaSinkCLIParser,
    DefaultKafkaSourceCLIParser,
    kafka_parse_sink_options,
    kafka_parse_source_options,
)
from wallaroo.connectors.kafka.records import KafkaRecord
from wallaroo.connectors.kafka.topic import TopicSettings
from wallaroo.connectors.parquet.config import ParquetSinkConfig, ParquetSourceConfig
from wallaroo.connectors.python.config import SinkConfig, SourceConfig
from wallaroo.connectors.sql.config import SQLSinkConfig
from wallaroo.connectors.sse.config import SSESinkConfig
from wallaroo.connectors.stdout.config import PrintSinkConfig
from wallaroo.connectors.tcp.config import TCPSinkConfig, TCPSourceConfig
from wallaroo.connectors.webhook.config import WebhookSinkConfig
from wallaroo.errors import (
    ApplicationError,
    FrameError,
    UsageError,
    WallarooError,
    WallarooParameterError,
)

__all__ = [
    "Aggregated",
    "Aggregation",
    "Aggregations",
    "ApplicationBuilder",
    "ApplicationError",
    "ApproxDistinct",
    "CSVSourceConfig",
    "Collect",
    "Computation",
    "ComputationMulti",
    "Count",
    "CustomKafkaSinkCLIParser",
    "CustomKafkaSourceCLIParser",
    "DeclaredApplication",
    "Decoder",
    "DefaultKafkaSinkCLIParser",
    "DefaultKafkaSourceCLIParser",
    "Duration",
    "Encoder",
    "FileSinkConfig",
    "FileSourceConfig",
    "First",
    "FrameError",
    "GenSourceConfig",
    "HTTPSourceConfig",
    "KafkaDeadLetters",
    "KafkaRecord",
    "KafkaSinkConfig",
    "KafkaSourceConfig",
    "KeyExtractor",
    "Last",
    "Max",
    "Mean",
    "MessageSource",
    "Min",
    "OctetDecoder",
    "OctetEncoder",
    "OutputSink",
    "ParquetSinkConfig",
    "ParquetSourceConfig",
    "Partition",
    "Pipeline",
    "PrintSinkConfig",
    "SQLSinkConfig",
    "SSESinkConfig",
    "SinkConfig",
    "SourceConfig",
    "StateComputation",
    "StateComputationMulti",
    "Sum",
    "TCPSinkConfig",
    "TCPSourceConfig",
    "Timers",
    "Top",
    "TopicSettings",
    "UsageError",
    "WallarooError",
    "WallarooParameterError",
    "WebhookSinkConfig",
    "Window",
    "WindowedPipeline",
    "asof_join",
    "build_application",
    "computation",
    "computation_async",
    "computation_batch",
    "computation_multi",
    "count_windows",
    "decoder",
    "encoder",
    "hours",
    "interval_join",
    "kafka_parse_sink_options",
    "kafka_parse_source_options",
    "key_extractor",
    "microseconds",
    "migrate",
    "milliseconds",
    "minutes",
    "nanoseconds",
    "now",
    "once_per_worker",
    "partition",
    "range_windows",
    "retries",
    "rng",
    "seconds",
    "session_windows",
    "source",
    "state_computation",
    "state_computation_multi",
    "table_join",
    "tcp_parse_input_addrs",
    "tcp_parse_output_addrs",
]
__version__ = "0.1.0"

# Not in __all__, so `from wallaroo import *` does not import them: a module that has both of these
# functions declares a custom serialization
serialize = functools.partial(pickle.dumps, protocol=pickle.HIGHEST_PROTOCOL)
deserialize = pickle.loads
_ARGS: tuple[str, ...] = ()
"""The command line of the application that was loaded last, in the form of a cluster initializer's.
"""

if not TYPE_CHECKING:  # type checkers must keep reporting unknown names
    __getattr__ = unsupported_names(__name__, WALLAROO)
