"""Applications as the three generations wrote them, on the oracle and on Spark."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import wallaroo
from tests.spark.in_process import InProcess, Sent
from wallaroo.errors import ApplicationError
from wallaroo.loading.loader import ApplicationRef
from wallaroo.resolution.application import resolve
from wallaroo.testing import load, simulate

SEEDS = Path(__file__).parent
TEXT = b"My solitude is cheered by that elegant hope and by my solitude"
TIME = b"20171207-15:47:52.000"


def quote(symbol: bytes, bid: float, offer: float) -> bytes:
    return struct.pack(">B4s21sdd", 2, symbol, TIME, bid, offer)


def order(number: int, symbol: bytes) -> bytes:
    return struct.pack(">BBI6s4sdd21s", 1, 1, 7, b"%06d" % number, symbol, 100.0, 10.0, TIME)


def test_word_count_of_classes_counts_as_its_text_promises() -> None:
    result = simulate(load(SEEDS / "classes_word_count.py"), [("Split and Count", TEXT)])
    assert result.outputs[:2] == [b"my => 1\n", b"solitude => 1\n"]
    assert result.outputs[-2:] == [b"my => 2\n", b"solitude => 2\n"]
    assert not result.set_aside


def test_word_count_of_decorators_counts_as_that_of_classes_does() -> None:
    apps = [load(SEEDS / f"{kind}_word_count.py") for kind in ("classes", "decorators")]
    first, second = (simulate(app, [("Split and Count", TEXT)]).outputs for app in apps)
    assert first == second


@pytest.mark.filterwarnings("ignore::wallaroo.testing.HintWarning")
@pytest.mark.parametrize("naive", [True, False])
def test_state_is_one_for_all_stocks_or_one_for_each(naive: bool) -> None:
    args = ["--in", "127.0.0.1:0", "--out", "127.0.0.1:1", *["naive"] * naive]
    sent = [("Stocks", b"IBM 1"), ("Stocks", b"T 2"), ("Stocks", b"IBM 3")]
    result = simulate(load(SEEDS / "pipelines_as_printed.py", args), sent)
    entities = result.state["update stock"]
    if naive:
        assert {key: entity.stocks for key, entity in entities.items()} == {
            None: {"IBM": 3.0, "T": 2.0}
        }
    else:
        assert {key: entity.price for key, entity in entities.items()} == {"IBM": 3.0, "T": 2.0}
    assert not result.set_aside


def test_market_spread_of_classes_shares_its_state_between_pipelines() -> None:
    messages = [
        ("Orders", order(1, b"AAPL")),  # before the first quote
        ("Market Data", quote(b"AAPL", 10.0, 10.01)),
        ("Orders", order(2, b"AAPL")),
        ("Market Data", quote(b"AAPL", 10.0, 11.0)),
        ("Orders", order(3, b"AAPL")),
        ("Orders", order(4, b"ZZZZ")),
    ]
    result = simulate(load(SEEDS / "classes_market_spread.py"), messages)
    rejected = [output[9:15] for output in result.outputs]
    assert rejected == [b"000001", b"000003"]
    assert len(result.unknown_keys) == 1


def test_merged_sources_share_the_state_behind_the_merge() -> None:
    messages = [("A", b"IBM 1"), ("B", b"IBM 2"), ("A", b"T 5"), ("A", b"IBM 3")]
    assert simulate(load(SEEDS / "pipelines_stocks.py"), messages).outputs == [
        b"IBM 0.0 -> 1.0\n",
        b"IBM 1.0 -> 2.0\n",
        b"T 0.0 -> 5.0\n",
        b"IBM 2.0 -> 3.0\n",
    ]


@pytest.mark.filterwarnings("ignore::wallaroo.testing.HintWarning")
def test_a_dictionary_in_the_class_body_belongs_to_its_entity() -> None:
    load(SEEDS / "pipelines_stocks.py")
    import pipelines_stocks as seed  # type: ignore[import-not-found]

    source = wallaroo.source("Stocks", wallaroo.TCPSourceConfig("", 0, seed.decode))
    sink = wallaroo.TCPSinkConfig("", 0, seed.encode)
    naive = wallaroo.build_application("naive", source.to(seed.update_stocks).to_sink(sink))
    for _ in range(2):  # a second run begins with nothing
        result = simulate(naive, [("Stocks", b"IBM 1"), ("Stocks", b"T 2")])
        (entity,) = result.state["update stocks"].values()
        assert entity.stocks == {"IBM": 1.0, "T": 2.0}
    assert seed.Stocks.stocks == {}


def test_a_prefix_of_a_pipeline_can_be_used_twice() -> None:
    decode = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
    words = wallaroo.source("Words", wallaroo.TCPSourceConfig("", 0, decode))
    sink = wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str.encode))
    upper = words.to(wallaroo.computation(name="upper")(str.upper)).to_sink(sink)
    lower = words.clone().to(wallaroo.computation(name="lower")(str.lower)).to_sink(sink)
    both = [wallaroo.build_application("app", pipeline) for pipeline in (upper, lower)]
    assert [simulate(app, [("Words", b"Ab")]).outputs for app in both] == [[b"AB"], [b"ab"]]


def test_a_pipeline_without_a_sink_is_told_with_its_line() -> None:
    decode = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
    words = wallaroo.source("Words", wallaroo.TCPSourceConfig("", 0, decode))
    with pytest.raises(ApplicationError, match=r"test_generations.py:\d+: pipeline 'Words' has no"):
        resolve(wallaroo.build_application("app", words))


def stocks() -> Sent:
    return [("AB"[n % 2], b"S%d %d" % (n % 3, n)) for n in range(60)]


def lines() -> Sent:
    return [("Split and Count", TEXT)] * 5


def market() -> Sent:
    symbols = [b"AAPL", b" IBM", b"ZZZZ"]
    return [
        ("Market Data", quote(symbols[n % 2], 10.0, 10.0 + n % 4 * 0.02))
        if n % 3
        else ("Orders", order(n, symbols[n % 3 + n % 2]))
        for n in range(90)
    ]


def prices() -> Sent:
    return [("Stocks", b"S%d %d" % (n % 3, n)) for n in range(30)]


@pytest.mark.filterwarnings("ignore::wallaroo.testing.HintWarning")
@pytest.mark.spark
@pytest.mark.parametrize(
    ("app", "args", "stream"),
    [
        ("classes_word_count.py", (), lines),
        ("classes_market_spread.py", (), market),
        ("decorators_word_count.py", (), lines),
        ("pipelines_stocks.py", (), stocks),
        ("pipelines_as_printed.py", (), prices),
        ("pipelines_as_printed.py", ("naive",), prices),
    ],
)
def test_spark_gives_what_the_oracle_gives(
    on_spark: InProcess, app: str, args: tuple[str, ...], stream: Callable[[], Sent]
) -> None:
    addresses = ("--in", "127.0.0.1:0,127.0.0.1:0", "--out", "127.0.0.1:1")
    reference = ApplicationRef(str(SEEDS / app), (*addresses, *args))
    sent = stream()
    due = simulate(reference.load(), sent)
    made = on_spark.run(reference, sent)
    for sink, outputs in due.by_sink.items():
        assert sorted(map(untimed, made.by_sink[sink])) == sorted(map(untimed, outputs))
    assert made.tally.set_aside == len(due.set_aside) == 0


def untimed(output: bytes) -> bytes:
    """*output* without the time that a Market Spread result ends with."""
    return output[:-8] if len(output) in {59, 60} else output
