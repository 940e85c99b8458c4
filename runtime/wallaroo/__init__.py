"""Wallaroo's programming model on Apache Spark.

An application is plain Python functions wired in `application_setup(args)`; `wallaroo run` streams
framed messages through it on Spark Structured Streaming. This module holds what an application
imports; `wallaroo.testing` runs an application without Spark or sockets.
"""

import functools
import pickle
from typing import TYPE_CHECKING

from wallaroo.api.addresses import tcp_parse_input_addrs, tcp_parse_output_addrs
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
from wallaroo.api.not_offered import WALLAROO, refusing
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
from wallaroo.errors import (
    ApplicationError,
    FrameError,
    UsageError,
    WallarooError,
    WallarooParameterError,
)

__all__ = [
    "Aggregation",
    "ApplicationBuilder",
    "ApplicationError",
    "Computation",
    "ComputationMulti",
    "DeclaredApplication",
    "Decoder",
    "Encoder",
    "FileSinkConfig",
    "FileSourceConfig",
    "FrameError",
    "GenSourceConfig",
    "KeyExtractor",
    "MessageSource",
    "OctetDecoder",
    "OctetEncoder",
    "OutputSink",
    "Partition",
    "Pipeline",
    "SinkConfig",
    "SourceConfig",
    "StateComputation",
    "StateComputationMulti",
    "TCPSinkConfig",
    "TCPSourceConfig",
    "UsageError",
    "WallarooError",
    "WallarooParameterError",
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

# Wallaroo's own names that are no part of what `from wallaroo import *` gives: a module that has
# both of these functions says that they are its own serialization
serialize = functools.partial(pickle.dumps, protocol=pickle.HIGHEST_PROTOCOL)
deserialize = pickle.loads
_ARGS: tuple[str, ...] = ()
"""The command line of the application that was loaded last, as that of a cluster's initializer."""

if not TYPE_CHECKING:  # type checkers know the names that there are
    __getattr__ = refusing(__name__, WALLAROO)
