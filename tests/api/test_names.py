"""Names of Wallaroo's API: the supported ones, and the errors for the others."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import wallaroo
import wallaroo.experimental
from tests.applications.counting import Count, count, whole
from tests.applications.counting import decode as text
from tests.applications.counting import encode as line
from wallaroo.api import unsupported
from wallaroo.connectors.tcp.resolve import TCPSink, TCPSource
from wallaroo.errors import ApplicationError
from wallaroo.loading.loader import ApplicationRef
from wallaroo.resolution.application import resolve
from wallaroo.testing import simulate

HERE = Path(__file__).name


class CountBuilder:
    def build(self) -> Count:
        return Count()


@wallaroo.computation(name="shout")
def shout(word: str) -> str:
    return word.upper()


def begun() -> Any:
    builder = wallaroo.ApplicationBuilder("app")
    return builder.new_pipeline("in", wallaroo.TCPSourceConfig("", 0, text))


@pytest.mark.parametrize(
    "keywords",
    [
        {"state_class": Count, "state_name": "seen"},
        {"state_builder": CountBuilder(), "state_name": "seen"},
        {"state": Count, "state_partition_name": "seen"},
    ],
)
def test_the_state_is_given_by_any_of_its_names(keywords: dict[str, Any]) -> None:
    builder = begun().to(computation_cls=shout).to_parallel(computation_cls=shout)
    builder.to_state_partition(computation=count, partition_function=whole, **keywords)
    builder.to_sink(sink_config=wallaroo.TCPSinkConfig("", 0, line))
    assert simulate(builder.build(), [("in", b"a"), ("in", b"a")]).outputs == [b"A: 1", b"A: 2"]


def test_an_argument_is_given_once() -> None:
    with pytest.raises(TypeError, match=r"to_stateful\(\): state_class is an alias of state"):
        begun().to_stateful(count, state=Count, state_class=Count, state_name="seen")


def test_an_argument_that_there_is_not_is_named() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'parallel'"):
        begun().to(shout, parallel=True)


class Gathering:  # no subclass of anything
    def initial_accumulator(self) -> list[str]:
        return []

    @staticmethod
    def update(word: str, gathered: list[str]) -> None:
        gathered.append(word)

    def combine(self, one: list[str], other: list[str]) -> list[str]:
        return one + other

    def output(self, _key: Any, gathered: list[str]) -> str:
        return "".join(gathered)


def windowed(windowing: Any) -> Any:
    pipeline = wallaroo.source("in", wallaroo.TCPSourceConfig("", 0, text))
    ended = pipeline.collect().to(windowing).to_sink(wallaroo.TCPSinkConfig("", 0, line))
    return wallaroo.build_application("app", ended)


def test_any_class_with_the_methods_aggregates() -> None:
    counts: Any = wallaroo.count_windows
    result = simulate(
        windowed(counts(wrange=2).over(aggregation_cls=Gathering)), [("in", b"a"), ("in", b"b")]
    )
    assert result.outputs == [b"ab"]
    assert list(result.state) == ["Gathering"]


def test_windows_take_wallaroos_keywords() -> None:
    ranges: Any = wallaroo.range_windows
    windows = ranges(wrange=wallaroo.nanoseconds(10)).with_late_data_policy(
        late_data_policy="fire-per-message"
    )
    assert (windows.range_ns, windows.late) == (10, "fire-per-message")
    with pytest.raises(wallaroo.WallarooParameterError, match="has already been called"):
        windows.with_late_data_policy("drop")


def test_a_class_that_lacks_a_method_does_not_aggregate() -> None:
    class Nothing:
        update = combine = Gathering.combine

    windowing: Any = wallaroo.count_windows(2)
    with pytest.raises(ApplicationError, match="does not define initial_accumulator, output"):
        resolve(windowed(windowing.over(Nothing)))
    with pytest.raises(
        ApplicationError, match=r"over\(…\) expects an Aggregation, .*but got the function len"
    ):
        resolve(windowed(windowing.over(len)))


class Numbers:
    def initial_value(self) -> int:
        return 1

    def apply(self, previous: int) -> int:
        return previous + 1


def test_configurations_take_wallaroos_keywords_and_become_tuples() -> None:
    configs: Any = wallaroo
    source = configs.TCPSourceConfig(host="a", port="1", encoder=text)  # sic, in 0.1 and 0.2
    assert source.to_tuple() == ("tcp", "a", 1, text)
    sink = configs.TCPSinkConfig(host="b", port="2", decoder=line)
    assert sink.to_tuple() == ("tcp", "b", 2, line)
    numbers = Numbers()
    assert configs.GenSourceConfig(gen_instance=numbers).to_tuple() == ("gen", numbers)
    assert configs.GenSourceConfig("Numbers", gen_instance=numbers).gen is numbers


def test_connectors_are_taken_by_their_names() -> None:
    builder = wallaroo.ApplicationBuilder("app")
    decode = wallaroo.experimental.stream_message_decoder(bytes.decode)
    encode = wallaroo.experimental.stream_message_encoder(str.encode)
    for name in "feed", "other feed":
        builder.source_connector(name, encoder=encode, decoder=decode)
    builder.sink_connector("lines", encoder=encode, decoder=decode)
    builder.sink_connector("more lines", encoder=encode, decoder=decode, port=9000)
    builder.new_pipeline("in", "other feed").to(shout).to_sinks(["lines", "more lines"])
    application = resolve(builder.build())
    (source,) = application.sources
    assert isinstance(source, TCPSource)
    assert (source.host, source.port) == ("127.0.0.1", 7101)
    ports = [sink.port for sink in application.sinks if isinstance(sink, TCPSink)]
    assert ports == [7200, 9000]
    result = simulate(application, [("in", b"a")])
    assert result.outputs == [b"\0\0\0\1A", b"\0\0\0\1A"]


def test_connectors_of_pipelines_have_configurations() -> None:
    decode = wallaroo.experimental.stream_message_decoder(bytes.decode)
    feed = wallaroo.experimental.SourceConnectorConfig(
        "feed", None, decode, 7100, cookie="c", max_credits=10, refill_credits=8, host="0.0.0.0"
    )
    out = wallaroo.experimental.SinkConnectorConfig("out", line, decode, "7200", cookie="c")
    application = resolve(
        wallaroo.build_application("app", wallaroo.source("in", feed).to(shout).to_sink(out))
    )
    assert application.sources[0].where == "0.0.0.0:7100"
    assert simulate(application, [("in", b"a")]).outputs == [b"A"]


def test_what_is_decorated_is_of_the_class_that_wallaroo_gives_it() -> None:
    assert isinstance(shout, wallaroo.Computation)
    assert not isinstance(shout, wallaroo.StateComputation)
    assert isinstance(count, wallaroo.StateComputation)
    assert isinstance(count, wallaroo.Computation)
    assert isinstance(whole, wallaroo.Partition)
    assert isinstance(text, wallaroo.Decoder)
    assert isinstance(line, wallaroo.Encoder)


class Whisper(wallaroo.Computation):
    def name(self) -> str:
        return "whisper"

    def compute(self, word: str) -> str:
        return word.lower()


def test_computations_may_subclass_wallaroos() -> None:
    builder = begun().to(Whisper).to_sink(wallaroo.TCPSinkConfig("", 0, line))
    assert simulate(builder.build(), [("in", b"A")]).outputs == [b"a"]


def test_objects_are_serialized_as_wallaroo_does() -> None:
    assert wallaroo.deserialize(wallaroo.serialize({"a": 1})) == {"a": 1}
    assert not {"serialize", "deserialize"} & set(wallaroo.__all__)


@pytest.mark.parametrize("name", unsupported.WALLAROO)
def test_an_unsupported_name_says_what_to_use(name: str) -> None:
    with pytest.raises(ApplicationError) as raised:
        getattr(wallaroo, name)
    told = str(raised.value)
    assert re.match(rf"{HERE}:\d+: wallaroo\.{name} is not supported: \w", told), told


def test_a_connector_script_is_told_what_to_use() -> None:
    with pytest.raises(
        ApplicationError, match=rf"^{HERE}:\d+: .*\.SourceConnector is not supported: se"
    ):
        from wallaroo.experimental import SourceConnector  # type: ignore[attr-defined] # noqa: F401
    with pytest.raises(
        ApplicationError, match=rf"^{HERE}:\d+: .*\.BaseSource is not supported: sub"
    ):
        from wallaroo.experimental.connectors import (  # type: ignore[attr-defined] # noqa: F401
            BaseSource,
        )


def test_what_wallaroo_never_had_is_an_attribute_error() -> None:
    assert not hasattr(wallaroo, "to_kafka")
    assert getattr(wallaroo.experimental, "Nothing", None) is None


def test_an_application_sees_the_command_line_of_the_initializer(tmp_path: Path) -> None:
    app = tmp_path / "args_app.py"
    app.write_text(
        "import wallaroo\n\nFIRST = '--cluster-initializer' in wallaroo._ARGS\n\n\n"
        "def application_setup(args):\n"
        "    assert FIRST and wallaroo._ARGS[1:3] == ('--in', 'a:1')\n"
        "    text = wallaroo.decoder(header_length=4, length_fmt='>I')(bytes.decode)\n"
        "    builder = wallaroo.ApplicationBuilder('args')\n"
        "    source = wallaroo.TCPSourceConfig('', 0, text)\n"
        "    return builder.new_pipeline('in', source).done().build()\n"
    )
    assert ApplicationRef(str(app), ("--in", "a:1")).load().name == "args"


def test_the_names_cost_none_of_the_packages_that_connectors_need() -> None:
    packages = {"confluent_kafka", "pyarrow", "sqlalchemy", "starlette", "structlog", "uvicorn"}
    code = f"import sys, wallaroo; print(*{packages}.intersection(sys.modules))"
    imported = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert not imported.split()
