"""Every kind of source says what its messages are."""

from collections.abc import Iterator, Sequence

import wallaroo
from wallaroo.experimental import (
    SinkConnectorConfig,
    SourceConnectorConfig,
    stream_message_decoder,
    stream_message_encoder,
)


class Numbers:
    def initial_value(self) -> int:
        return 0

    def apply(self, previous: int, /) -> int | None:
        return previous + 1


class Ticks(wallaroo.MessageSource[int]):
    def read(self, position: int | None) -> Iterator[tuple[bytes, int] | None]:
        yield None


class Kept(wallaroo.OutputSink):
    def write(self, first: int, outputs: Sequence[bytes]) -> None: ...


class LineDecoder:
    def header_length(self) -> int:
        return 4

    def payload_length(self, bs: bytes) -> int:
        return 0

    def decode(self, bs: bytes) -> str:
        return bs.decode()


class Shout:
    def name(self) -> str:
        return "shout"

    def compute(self, data: str) -> str:
        return data.upper()


class LineEncoder:
    def encode(self, data: str) -> bytes:
        return data.encode()


class First:
    def partition(self, data: str) -> str:
        return data[0]


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload: bytes) -> str:
    return payload.decode()


reveal_type(wallaroo.TCPSourceConfig("", 0, decode))  # R: TCPSourceConfig[str]
reveal_type(wallaroo.TCPSourceConfig("name", "", "7010", decode))  # R: TCPSourceConfig[str]
reveal_type(wallaroo.TCPSourceConfig("", 0, LineDecoder()))  # R: TCPSourceConfig[str]
wallaroo.TCPSourceConfig("", 0, len)  # E: No overload variant of "TCPSourceConfig"
in_lines = wallaroo.TCPSourceConfig("", 0, bytes.decode, framing="lines")
reveal_type(in_lines)  # R: TCPSourceConfig[str]
reveal_type(wallaroo.TCPSourceConfig("n", "", 0, len, framing=b"\0"))  # R: TCPSourceConfig[int]
reveal_type(wallaroo.HTTPSourceConfig("", 0, bytes.decode))  # R: HTTPSourceConfig[str]
reveal_type(wallaroo.FileSourceConfig("in", decode))  # R: FileSourceConfig[str]
reveal_type(wallaroo.FileSourceConfig("in", bytes.decode, "lines"))  # R: FileSourceConfig[str]
reveal_type(wallaroo.CSVSourceConfig("in"))  # R: CSVSourceConfig[dict[str, Any]]
reveal_type(wallaroo.ParquetSourceConfig("in", len))  # R: ParquetSourceConfig[int]
reveal_type(wallaroo.GenSourceConfig(Numbers()))  # R: GenSourceConfig[int]
reveal_type(wallaroo.GenSourceConfig("numbers", Numbers()))  # R: GenSourceConfig[int]
reveal_type(wallaroo.SourceConfig(Ticks(), decode))  # R: SourceConfig[str]
wallaroo.source("no source", 7)  # E: Argument 2 to "source" has incompatible type "int"

# The first generation's classes.
lines = wallaroo.source("Lines", wallaroo.TCPSourceConfig("", 0, LineDecoder()))
reveal_type(lines.to(Shout()))  # R: Pipeline[str]
reveal_type(lines.to(Shout))  # R: Pipeline[str]
lines_sink = wallaroo.SinkConfig(Kept(), LineEncoder())
lines.key_by(First()).to_sink(lines_sink)
numbers = wallaroo.source("Numbers", wallaroo.GenSourceConfig(Numbers()))
numbers.to(Shout())  # E: has incompatible type "Shout"
numbers.to(Shout)  # E: has incompatible type "type[Shout]"
numbers.key_by(First())  # E: has incompatible type "First"
numbers.to_sink(lines_sink)  # E: has incompatible type "SinkConfig[str]"

# Topics, in a pipeline and by the options of the command line.
orders = wallaroo.KafkaSourceConfig("orders", "broker:9092", bytes.decode)
reveal_type(orders)  # R: KafkaSourceConfig[str]
reveal_type(wallaroo.source("Orders", orders).to(Shout()))  # R: Pipeline[str]
named = wallaroo.KafkaSourceConfig(topic="orders", brokers="broker", decoder=bytes.decode)
reveal_type(named)  # R: KafkaSourceConfig[str]
wallaroo.KafkaSinkConfig(topic="out", brokers="broker", encoder=wallaroo.encoder(str.encode))
by_options = wallaroo.DefaultKafkaSourceCLIParser(bytes.decode)
out = wallaroo.KafkaSinkConfig("out", "broker:9092", wallaroo.encoder(str.encode))
wallaroo.source("Orders", by_options).to_sink(out)
wallaroo.source("Orders", orders).to_sinks([out, lines_sink])
numbers.to_sink(out)  # E: has incompatible type "KafkaSinkConfig[str]"

# Connectors of wallaroo.experimental.
from_script = SourceConnectorConfig("in", None, stream_message_decoder(bytes.decode), 7100)
reveal_type(wallaroo.source("Script", from_script))  # R: Pipeline[str]
to_script = SinkConnectorConfig("out", stream_message_encoder(str.encode), None, 7200)
lines.to_sink(to_script)
numbers.to_sink(to_script)  # E: has incompatible type "SinkConnectorConfig[str]"
