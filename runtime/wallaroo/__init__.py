"""Wallaroo's programming model on Apache Spark.

An application is plain Python functions wired in `application_setup(args)`; `wallaroo run` streams
framed messages through it on Spark Structured Streaming. This module holds what an application
imports; `wallaroo.testing` runs an application without Spark or sockets.
"""

from wallaroo.api.addresses import tcp_parse_input_addrs, tcp_parse_output_addrs
from wallaroo.api.builder import ApplicationBuilder, DeclaredApplication
from wallaroo.api.configs import (
    FileSinkConfig,
    FileSourceConfig,
    GenSourceConfig,
    TCPSinkConfig,
    TCPSourceConfig,
)
from wallaroo.api.connectors import MessageSource, OutputSink, SinkConfig, SourceConfig
from wallaroo.api.functions import (
    computation,
    computation_multi,
    decoder,
    encoder,
    key_extractor,
    partition,
    state_computation,
    state_computation_multi,
)
from wallaroo.api.pipeline import Pipeline, build_application, source
from wallaroo.api.windows import (
    Aggregation,
    count_windows,
    hours,
    microseconds,
    milliseconds,
    minutes,
    nanoseconds,
    range_windows,
    seconds,
)
from wallaroo.errors import ApplicationError, FrameError, UsageError, WallarooError

__all__ = [
    "Aggregation",
    "ApplicationBuilder",
    "ApplicationError",
    "DeclaredApplication",
    "FileSinkConfig",
    "FileSourceConfig",
    "FrameError",
    "GenSourceConfig",
    "MessageSource",
    "OutputSink",
    "Pipeline",
    "SinkConfig",
    "SourceConfig",
    "TCPSinkConfig",
    "TCPSourceConfig",
    "UsageError",
    "WallarooError",
    "build_application",
    "computation",
    "computation_multi",
    "count_windows",
    "decoder",
    "encoder",
    "hours",
    "key_extractor",
    "microseconds",
    "milliseconds",
    "minutes",
    "nanoseconds",
    "partition",
    "range_windows",
    "seconds",
    "source",
    "state_computation",
    "state_computation_multi",
    "tcp_parse_input_addrs",
    "tcp_parse_output_addrs",
]
__version__ = "0.1.0"
