"""Sinks that print, and sources of standard input, in the normal form of an application."""

from __future__ import annotations

import pytest

import wallaroo
from tests.applications.counting import as_line, decode
from tests.resolution.declared import SOURCE, begun
from wallaroo.errors import UsageError
from wallaroo.gateway.settings import check_sinks, check_sources
from wallaroo.resolution.application import resolve
from wallaroo.run.standard_input import source_of
from wallaroo.testing import simulate


@pytest.mark.parametrize(
    "config",
    [wallaroo.PrintSinkConfig(as_line), wallaroo.TCPSinkConfig("-", "0", as_line)],
    ids=["its own configuration", "--out -"],
)
def test_a_sink_prints_what_its_encoder_returns(config: wallaroo.PrintSinkConfig[object]) -> None:
    application = resolve(begun(SOURCE).to_sink(config).build())
    (sink,) = application.sinks
    assert (sink.where, sink.is_standard, sink.joins_outputs) == ("standard output", True, False)
    check_sinks(application)


def test_without_an_encoder_it_prints_text() -> None:
    config: wallaroo.PrintSinkConfig[object] = wallaroo.PrintSinkConfig()
    declared = begun(SOURCE).to_sink(config.named("here")).build()
    assert simulate(declared, [("lines", b"a"), ("lines", b"b")]).outputs == [b"a", b"b"]
    assert resolve(declared).sinks[0].name == "here"


def test_a_source_of_standard_input_is_read_by_a_run_alone() -> None:
    source = wallaroo.TCPSourceConfig("-", "0", decode)
    application = resolve(begun(source).done().build())
    (resolved,) = application.sources
    assert (resolved.where, resolved.label) == ("standard input", "standard input")
    assert source_of(application, secret=False) is resolved
    assert source_of(resolve(begun(SOURCE).done().build()), secret=True) is None
    with pytest.raises(UsageError, match="source 'lines' reads standard input, which is possible"):
        check_sources(application)
    with pytest.raises(UsageError, match="cannot be combined with TLS"):
        source_of(application, secret=True)


def test_one_source_alone_reads_standard_input() -> None:
    builder = begun(wallaroo.TCPSourceConfig("-", 0, decode)).done()
    builder.new_pipeline("more", wallaroo.TCPSourceConfig("-", 0, decode)).done()
    with pytest.raises(UsageError, match="the sources 'lines' and 'more' read standard input"):
        source_of(resolve(builder.build()), secret=False)
