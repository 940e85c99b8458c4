"""An application that is not well formed is told all that is wrong with it, with places."""

from __future__ import annotations

import functools
from typing import Any, Generic, TypeVar

import pytest

import wallaroo
from tests.applications.counting import Count, as_line, count, decode, whole
from tests.helpers import framing_of
from tests.resolution.declared import SINK, SOURCE, begun, only_problem, problems, this_line
from wallaroo.api.builder import ApplicationBuilder
from wallaroo.codecs import csv_decoder, json_decoder
from wallaroo.connectors.parquet.resolve import ParquetSink
from wallaroo.connectors.python.resolve import CustomSource
from wallaroo.errors import ApplicationError
from wallaroo.model.application import Compute, StateCompute
from wallaroo.resolution.application import resolve

HERE = "test_application.py"
T = TypeVar("T")
unchecked: Any = wallaroo
"""The API as an author has it who uses no type checker."""


@wallaroo.computation(name="shout")
def shout(message: str) -> str:
    return message.upper()


class Other:
    pass


def defined_at(function: Any) -> str:
    return f"{HERE}:{function.__code__.co_firstlineno}"


def test_a_decorated_function_stays_callable() -> None:
    assert decode(b"hello") == "hello"
    assert shout("hello") == "HELLO"
    assert count("a", Count()) == ("a: 1", True)
    assert whole("key") == "key"
    assert as_line("x") == "x\n"
    assert vars(shout)["__name__"] == "shout"


def test_a_well_formed_application_becomes_pipelines_steps_and_partitions() -> None:
    builder = begun().to(shout)
    builder.to_state_partition(count, Count, "counts", whole, ["A", "B"], "drop")
    application = resolve(builder.to_sink(SINK).build())
    (pipeline,) = application.pipelines
    assert [type(step) for step in pipeline.trunk.steps] == [Compute, StateCompute]
    assert [step.name for step in pipeline.trunk.steps] == ["shout", "count"]
    assert application.partitions["counts"].keys == frozenset({"A", "B"})
    assert application.sinks == pipeline.sinks


def test_pipelines_that_name_one_state_share_it() -> None:
    builder = begun().to_state_partition(count, Count, "counts", whole).done()
    builder.new_pipeline("more", SOURCE).to_state_partition(count, Count, "counts", whole).done()
    assert list(resolve(builder.build()).partitions) == ["counts"]


def test_no_two_sinks_have_one_name() -> None:
    other = wallaroo.TCPSinkConfig("127.0.0.1", 7003, as_line)
    builder = begun().to_sinks([SINK, other])
    (_, second) = resolve(builder.build()).sinks
    builder.new_pipeline(second.name, SOURCE).to_sink(wallaroo.TCPSinkConfig("::1", 7004, as_line))
    with pytest.raises(ApplicationError, match=f"two sinks are named '{second.name}'; give one"):
        resolve(builder.build())


def test_a_sink_after_a_join_is_one_sink_though_a_side_has_others() -> None:
    @wallaroo.table_join(name="pair")
    def pair(left: str, right: str | None) -> str:
        return f"{left} {right}"

    other = wallaroo.TCPSinkConfig("127.0.0.1", 7003, as_line)
    one, two, three = (
        wallaroo.source(name, wallaroo.TCPSourceConfig("127.0.0.1", port, decode)).key_by(whole)
        for port, name in enumerate(["one", "two", "three"], 7010)
    )
    declared = wallaroo.build_application(
        "app", one.merge(two).to_sink(SINK), two.join(three, pair).to_sink(other)
    )
    application = resolve(declared)
    assert [sink.where for sink in application.sinks] == ["127.0.0.1:1", "127.0.0.1:7003"]


def test_done_after_a_sink_changes_nothing() -> None:
    assert len(resolve(begun().to_sink(SINK).done().build()).sinks) == 1


def test_everything_that_is_wrong_is_told_at_once() -> None:
    builder = ApplicationBuilder("app").to(shout)
    builder.new_pipeline("one", SOURCE).to(str.upper).to_sink(SINK).to(shout)
    builder.new_pipeline("one", SOURCE).to_stateful(count, Count(), "counts")
    told = problems(builder)
    assert len(told) == 6
    assert all(problem.startswith(f"{HERE}:") for problem in told)
    with pytest.raises(ApplicationError) as raised:
        resolve(builder.build())
    assert str(raised.value).count("\n  - ") == len(told)


def test_a_step_must_be_a_computation() -> None:
    builder, at = begun().to(len).to_sink(SINK), this_line()
    assert only_problem(builder) == (
        f"{HERE}:{at}: pipeline 'lines': to expects a function decorated with @computation, "
        "but got the function len"
    )


def test_a_stateful_step_must_be_a_state_computation() -> None:
    builder, at = begun().to_stateful(shout, Count, "counts").done(), this_line()
    problem = only_problem(builder)
    assert problem.startswith(f"{HERE}:{at}: pipeline 'lines': to_stateful expects")
    assert "@state_computation" in problem
    assert "got the @computation shout" in problem


def test_a_computation_takes_one_message() -> None:
    def add(one: int, other: int) -> int:
        return one + other

    problem = only_problem(begun().to(unchecked.computation(name="add")(add)).to_sink(SINK))
    assert problem.startswith(f"{defined_at(add)}: pipeline 'lines', step 'add' is called with")
    assert "(message)" in problem
    assert "'other'" in problem


def test_a_state_computation_takes_a_message_and_a_state() -> None:
    def forget(message: str) -> None:
        return None

    problem = only_problem(
        begun().to_stateful(unchecked.state_computation("forget")(forget), Count, "counts").done()
    )
    assert problem.startswith(f"{defined_at(forget)}: pipeline 'lines', step 'forget'")
    assert "(message, state)" in problem


def test_decoders_encoders_and_key_functions_take_one_argument() -> None:
    def decode() -> None:
        return None

    def encode(one: Any, other: Any) -> bytes:
        return b""

    def key() -> None:
        return None

    source = wallaroo.TCPSourceConfig("", 0, unchecked.decoder(4, ">I")(decode))
    sink = wallaroo.TCPSinkConfig("", 0, unchecked.encoder(encode))
    builder = (
        begun(source)
        .to_state_partition(count, Count, "counts", unchecked.partition(key))
        .to_sink(sink)
    )
    told = problems(builder)
    assert len(told) == 3
    assert "decoder decode is called with (payload)" in told[0]
    assert "step 'count': key function is called with (message)" in told[1]
    assert "encoder encode is called with (output)" in told[2]


def test_a_pipeline_must_end() -> None:
    builder, at = begun().to(shout), this_line()
    assert only_problem(builder) == (
        f"{_place_of_begun()}: pipeline 'lines' has no end: finish it with to_sink(…) or done()"
    )
    assert at > 0


def _place_of_begun() -> str:
    return f"declared.py:{begun.__code__.co_firstlineno + 1}"


def test_nothing_comes_after_a_pipelines_end() -> None:
    builder, at = begun().to_sink(SINK).to(shout), this_line()
    assert only_problem(builder) == f"{HERE}:{at}: pipeline 'lines' has a step after its end"


def test_a_pipeline_ends_once() -> None:
    assert "after its end" in only_problem(begun().to_sink(SINK).to_sink(SINK))


def test_pipelines_that_are_merged_after_their_ends_are_one_problem() -> None:
    ended = [
        wallaroo.source(name, wallaroo.TCPSourceConfig("", 0, decode)).to_sink(SINK)
        for name in ("left", "right", "third")
    ]
    merged = ended[0].merge(ended[1]).merge(ended[2]).to_sink(SINK)
    with pytest.raises(ApplicationError) as found:
        resolve(wallaroo.build_application("merged", merged))
    (told,) = found.value.problems
    assert "pipelines 'left', 'right', 'third' are merged or joined after an end: call" in told


def test_a_step_needs_a_pipeline() -> None:
    builder, at = ApplicationBuilder("app").to(shout), this_line()
    told = problems(builder)
    assert told[0] == f"{HERE}:{at}: there is a step before the first new_pipeline(…)"


def test_an_application_needs_a_pipeline() -> None:
    builder, at = ApplicationBuilder("app"), this_line()
    assert only_problem(builder) == (
        f"{HERE}:{at}: the application has no pipeline; call new_pipeline(…), "
        "or pass pipelines to build_application(…)"
    )


def test_two_pipelines_have_two_names() -> None:
    builder = begun().done()
    builder.new_pipeline("lines", SOURCE).done()
    at = this_line() - 1
    assert only_problem(builder) == (
        f"{HERE}:{at}: two pipelines are named 'lines': the other is at {_place_of_begun()}"
    )


def test_one_state_has_entities_of_one_class() -> None:
    builder = begun().to_state_partition(count, Count, "counts", whole).done()
    builder.new_pipeline("more", SOURCE).to_state_partition(count, Other, "counts", whole).done()
    problem = only_problem(builder)
    assert (
        "pipeline 'more', step 'count': state 'counts' has entities of class Other here" in problem
    )
    assert f"but of Count at {HERE}:" in problem


def test_one_state_has_one_set_of_keys() -> None:
    listed = functools.partial(begun().to_state_partition, count, Count, "counts", whole)
    builder = listed(["a"], "drop").done()
    builder.new_pipeline("more", SOURCE)
    builder.to_state_partition(count, Count, "counts", whole, ["b"], "drop").done()
    problem = only_problem(builder)
    assert f"the keys of state 'counts' differ from those at {HERE}:" in problem


def test_a_key_is_listed_once() -> None:
    builder = begun().to_state_partition(count, Count, "counts", whole, ["a", "b", "a"]).done()
    assert "step 'count': the key 'a' is listed twice" in only_problem(builder)


def test_a_listed_key_can_be_hashed() -> None:
    builder = begun().to_state_partition(count, Count, "counts", whole, ["a", ["b"]]).done()
    assert (
        "step 'count': in the list of keys, an object of class list is not a valid key"
        in only_problem(builder)
    )


def test_a_key_function_that_is_annotated_to_return_what_is_not_a_key_is_a_problem() -> None:
    @wallaroo.partition  # type: ignore[type-var]
    def listed(word: str) -> list[str]:
        return list(word)

    listed_at = f"{HERE}:{listed.function.__code__.co_firstlineno}"
    builder = begun().to_state_partition(count, Count, "counts", listed).done()
    problem = only_problem(builder)
    assert problem.startswith(f"{listed_at}: pipeline 'lines', step 'count': key function: list is")
    assert problem.endswith("it is mutable (unhashable); return tuple(key) instead")


def test_keys_are_a_list() -> None:
    keys: Any = 26
    builder = begun().to_state_partition(count, Count, "counts", whole, keys).done()
    assert "step 'count': the keys are 26" in only_problem(builder)


@pytest.mark.parametrize("keys", [None, [], ()])
def test_no_listed_keys_mean_any_key(keys: Any) -> None:
    builder = begun().to_state_partition(count, Count, "counts", whole, keys).done()
    assert resolve(builder.build()).partitions["counts"].keys is None


class Boxed(Generic[T]):
    pass


class CountBuilder:
    def build(self) -> Count:
        return Count()


@pytest.mark.parametrize(
    ("state", "other_keys", "closed"),
    [
        (Count, None, False),  # a state class: 0.4 and later
        (CountBuilder(), None, True),  # a builder of states: up to 0.3
        (Count, "drop", True),
        (CountBuilder(), "add", False),
    ],
)
def test_the_api_in_use_or_an_argument_says_what_becomes_of_other_keys(
    state: Any, other_keys: Any, closed: bool
) -> None:
    keys = ["a", "b"]
    builder = begun().to_state_partition(count, state, "counts", whole, keys, other_keys).done()
    made = resolve(builder.build()).partitions["counts"]
    assert made.keys == (frozenset(keys) if closed else None)
    assert made.accepts("c") is not closed


def test_integer_keys_that_are_listed_are_all_there_are() -> None:
    builder = begun().to_state_partition_u64(count, Count, "counts", whole, [1, 2]).done()
    assert resolve(builder.build()).partitions["counts"].keys == frozenset({1, 2})


def test_what_becomes_of_other_keys_is_add_or_drop() -> None:
    keys: Any = "forget"
    builder = begun().to_state_partition(count, Count, "counts", whole, ["a"], keys).done()
    problem = "step 'count': other_keys is 'forget'; expected 'add' or 'drop'"
    assert problem in only_problem(builder)


def test_to_drop_all_keys_is_a_mistake() -> None:
    builder = begun().to_state_partition(count, Count, "counts", whole, [], "drop").done()
    problem = "step 'count': other_keys='drop' without partition_keys would drop every message"
    assert problem in only_problem(builder)


def test_a_connector_that_is_not_there_is_named_with_what_to_call() -> None:
    builder = ApplicationBuilder("app").new_pipeline("in", "feed").to(shout).done()
    assert "'feed' is not a source configuration; to use a connector" in only_problem(builder)
    assert "source_connector('feed', …)" in only_problem(builder)


def test_a_state_class_is_made_without_arguments() -> None:
    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

    problem = only_problem(begun().to_stateful(count, Named, "named").done())
    assert problem.startswith(f"{HERE}:{this_line() - 5}: ")
    assert "state class Named is called with (no arguments)" in problem
    assert "'name'" in problem


def test_a_state_is_a_class() -> None:
    problem = only_problem(begun().to_stateful(count, Count(), "counts").done())
    assert "the state is an object of class Count; expected a class" in problem


def test_a_state_is_not_a_generic_alias() -> None:
    problem = only_problem(begun().to_stateful(count, list[int], "counts").done())
    assert problem.endswith("the state is list[int], a generic alias; use list")
    problem = only_problem(begun().to_stateful(count, Boxed[int], "counts").done())
    assert problem.endswith("the state is Boxed[int], a generic alias; use Boxed")


def test_a_key_function_is_a_function() -> None:
    key: Any = "first letter"
    builder = begun().to_state_partition(count, Count, "counts", key).done()
    problem = only_problem(builder)
    assert "'first letter' is not a key function; decorate it with @partition" in problem


def test_a_source_needs_a_source_configuration_and_a_sink_a_sink_configuration() -> None:
    told = problems(begun("127.0.0.1:7010").to_sink(SOURCE))
    assert "pipeline 'lines': '127.0.0.1:7010' is not a source configuration" in told[0]
    assert "an object of class TCPSourceConfig is not a sink configuration" in told[-1]


def test_plain_functions_are_encoders_and_do_not_describe_frames() -> None:
    source = wallaroo.TCPSourceConfig("", 0, bytes.decode)  # type: ignore[call-overload]
    told = problems(begun(source).to_sink(wallaroo.TCPSinkConfig("", 0, str.encode)))
    assert len(told) == 1
    assert "the function decode is not a decoder; decorate it with @decoder" in told[0]


@pytest.mark.parametrize(
    "encode", [str.encode, lambda text: text, functools.partial(str.encode), "{}!".format]
)
def test_whatever_can_be_called_can_be_an_encoder(encode: Any) -> None:
    (sink,) = resolve(begun().to_sink(wallaroo.TCPSinkConfig("", 0, encode)).build()).sinks
    assert sink.encode is encode


@pytest.mark.parametrize("other", [7, wallaroo.encoder, wallaroo.codecs.json_encoder, decode])
def test_what_makes_an_encoder_or_is_another_step_is_none(other: Any) -> None:
    (told,) = problems(begun().to_sink(wallaroo.TCPSinkConfig("", 0, other)))
    assert "encoder" in told


def test_a_header_format_must_fit() -> None:
    @wallaroo.decoder(header_length=4, length_fmt=">Q")
    def decode(bs: bytes) -> bytes:
        return bs

    problem = only_problem(begun(wallaroo.TCPSourceConfig("", 0, decode)).done())
    assert problem.startswith(f"{defined_at(decode.function)}: pipeline 'lines': decoder decode:")
    assert "takes 8 bytes, and header_length is 4" in problem


@pytest.mark.parametrize("returned", [None, "an application", 7, ApplicationBuilder("app")])
def test_application_setup_returns_what_build_gave(returned: object) -> None:
    with pytest.raises(
        ApplicationError, match=r"expected an application.*return builder\.build\(\)"
    ):
        resolve(returned)


class Numbers:
    def initial_value(self) -> int:
        return 1

    def apply(self, previous: int) -> int:
        return previous + 1


class Rows(wallaroo.MessageSource[int]):
    def read(self, position: int | None) -> Any:  # noqa: ARG002
        yield from ()


class Table(wallaroo.OutputSink):
    def write(self, first: int, outputs: Any) -> None:
        pass


class Decoding:
    def decode(self, bs: bytes) -> str:
        return bs.decode()


@pytest.mark.parametrize("decoder", [decode, bytes.decode, Decoding(), str.upper])
def test_a_source_without_frames_takes_any_function_as_its_decoder(decoder: Any) -> None:
    for config in [
        wallaroo.FileSourceConfig("in", decoder, "lines"),
        wallaroo.SourceConfig(Rows(), decoder),
    ]:
        (source,) = resolve(begun(config).done().build()).sources
        assert isinstance(source, CustomSource)
        assert callable(source.decode)


def test_sources_and_sinks_say_where_they_are() -> None:
    builder = begun(wallaroo.GenSourceConfig(Numbers())).to_sinks(
        [
            SINK,
            wallaroo.FileSinkConfig("/o", as_line),
            wallaroo.SinkConfig(Table(), as_line),
        ]
    )
    builder.new_pipeline("file", wallaroo.FileSourceConfig("/i", decode)).done()
    builder.new_pipeline("own", wallaroo.SourceConfig(Rows(), decode)).done()
    builder.new_pipeline("tcp", SOURCE).done()
    application = resolve(builder.build())
    wheres = ["generator Numbers", "file /i", "Rows", "127.0.0.1:0"]
    assert [source.where for source in application.sources] == wheres
    assert [sink.where for sink in application.sinks] == ["127.0.0.1:1", "file /o", "Table"]


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (
            unchecked.CSVSourceConfig("a.csv", csv_decoder(["n"])),
            "csv_decoder(['n']) decodes messages of bytes, but the decoder of a CSVSourceConfig "
            "gets a row, which is a dict: write lambda row: …, or no decoder",
        ),
        (
            unchecked.ParquetSourceConfig("a.parquet", json_decoder()),
            "json_decoder() decodes messages of bytes, but the decoder of a ParquetSourceConfig "
            "gets a row, which is a dict: write lambda row: …, or no decoder",
        ),
        (
            unchecked.KafkaSourceConfig("t", "b:1", json_decoder(), envelope=True),
            "json_decoder() decodes messages of bytes, but the decoder of a KafkaSourceConfig "
            "gets a KafkaRecord: write lambda record: decode(record.value), or envelope=False",
        ),
    ],
)
def test_a_decoder_of_bytes_is_refused_where_there_are_none(config: Any, problem: str) -> None:
    assert only_problem(begun(config).done()).endswith(f": pipeline 'lines': {problem}")


@wallaroo.encoder
def as_row(line: str) -> dict[str, Any] | None:
    return {"line": line} if line else None


def test_files_of_rows_are_sources_and_sinks() -> None:
    csv = wallaroo.CSVSourceConfig("orders.csv")
    rows = wallaroo.ParquetSourceConfig("in/*.parquet", lambda row: row["n"], columns=["n"])
    files = wallaroo.ParquetSinkConfig("out", as_row)
    builder = begun(csv).to_sink(files).new_pipeline("rows", rows).done()
    application = resolve(builder.build())
    one, other = application.sources
    assert one.ends
    assert other.where.startswith("files /")
    assert one.decode(b'{"n":"7"}') == {"n": "7"}
    assert (other.decode(b'{"n":7}'), other.decode({"n": 8})) == (7, 8)  # type: ignore[arg-type]
    (sink,) = application.sinks
    assert isinstance(sink, ParquetSink)
    assert sink.label == "Parquet out"


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (
            unchecked.CSVSourceConfig("a", delimiter="ab"),
            "delimiter is 'ab'; expected one character, but not a quote or a line end",
        ),
        (
            unchecked.CSVSourceConfig("a", columns="ab"),
            "columns is 'ab'; expected a list of names, or None",
        ),
        (
            unchecked.ParquetSourceConfig("a", columns=["a", "a"]),
            "columns is ['a', 'a']; expected a different name for each column",
        ),
        (
            unchecked.CSVSourceConfig("a", "decode"),
            "'decode' is not a decoder; expected a function",
        ),
    ],
)
def test_mistakes_in_sources_of_rows_are_told(config: Any, problem: str) -> None:
    assert only_problem(begun(config).done()).endswith(f": pipeline 'lines': {problem}")


@pytest.mark.parametrize("max_size", [0, -1, "9", 1.5, True])
@pytest.mark.parametrize("framing", ["frames", "lines", None])
def test_a_limit_that_is_no_size_is_told(max_size: Any, framing: str | None) -> None:
    config = (
        unchecked.HTTPSourceConfig("h", 0, decode, max_size=max_size)
        if framing is None
        else unchecked.TCPSourceConfig("h", 0, decode, framing=framing, max_size=max_size)
    )
    problem = f"max_size is {max_size!r}; expected a whole number of at least 1"
    assert only_problem(begun(config).done()).endswith(f": pipeline 'lines': {problem}")


def test_a_source_has_its_own_limit_where_it_names_one() -> None:
    small = wallaroo.TCPSourceConfig("n", "h", 0, decode, max_size=9)
    builder = begun(small).done().new_pipeline("large", SOURCE).done()
    assert [framing_of(s).max_frame for s in resolve(builder.build(), 77).sources] == [9, 77]


def test_what_is_no_source_no_sink_and_no_framing_is_told_with_its_line() -> None:
    own: Any = Numbers()
    builder, at = begun(wallaroo.SourceConfig(own, decode)), this_line()
    builder.to_sink(wallaroo.SinkConfig(own, as_line))
    builder.new_pipeline("b", unchecked.FileSourceConfig("i", decode, framing="line"))
    builder.to_sink(unchecked.FileSinkConfig("o", as_line, framing="frames"))
    here, base = "an object of class Numbers is not a", "pass an instance of a"
    assert problems(builder) == (
        f"{HERE}:{at}: pipeline 'lines': {here} source; {base} MessageSource subclass",
        f"{HERE}:{at + 1}: pipeline 'lines': {here} sink; {base}n OutputSink subclass",
        f"{HERE}:{at + 2}: pipeline 'b': framing is 'line'; expected 'frames' or 'lines'",
        f"{HERE}:{at + 3}: pipeline 'b': framing is 'frames'; expected 'none' or 'lines'",
    )
