"""`wallaroo graph`: what is drawn, and that the picture in the README is the one it draws."""

from __future__ import annotations

import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import wallaroo
from tests.applications.counting import count_of_pipeline, decode, encode, first_letter
from tests.helpers import MARKET_SPREAD, ROOT, WORD_COUNT
from wallaroo.cli.main import main
from wallaroo.graphs.drawing import dot, mermaid
from wallaroo.graphs.graph import Graph, Node, graph_of
from wallaroo.resolution.application import resolve
from wallaroo.testing import load

PICTURE = ROOT / "docs" / "market-spread.svg"
DRAW_AGAIN = f"wallaroo graph apps/market_spread --output {PICTURE.relative_to(ROOT)}"
SVG = "{http://www.w3.org/2000/svg}"

shout = wallaroo.computation(name="shout")(str.upper)
sink = wallaroo.TCPSinkConfig("", 0, encode)


def draw(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["graph", *map(str, arguments)])


def source(name: str) -> wallaroo.Pipeline[str]:
    return wallaroo.source(name, wallaroo.TCPSourceConfig("", 0, decode))


def graph(pipeline: wallaroo.Pipeline[str], name: str = "app") -> Graph:
    return graph_of(resolve(wallaroo.build_application(name, pipeline)))


def nodes(drawn: Graph) -> dict[str, Node]:
    return {node.id: node for group in drawn.groups for node in group.nodes} | {
        node.id: node for node in drawn.states
    }


def ways(drawn: Graph) -> list[tuple[str, str, str]]:
    names = {number: f"{node.kind} {node.name}" for number, node in nodes(drawn).items()}
    return [(names[edge.start], edge.label, names[edge.end]) for edge in drawn.edges]


def test_two_pipelines_of_market_spread_use_one_state_by_one_key() -> None:
    drawn = graph_of(load(MARKET_SPREAD))
    assert [group.pipelines for group in drawn.groups] == [("Orders",), ("Market Data",)]
    assert ways(drawn) == [
        ("source Orders", "symbol_of", "stateful step Check Order"),
        ("stateful step Check Order", "", "sink Orders"),
        ("source Market Data", "symbol_of", "stateful step Update Market Data"),
        ("stateful step Check Order", "", "state symbol-data"),
        ("stateful step Update Market Data", "", "state symbol-data"),
    ]
    (state,) = drawn.states
    assert state.detail == "SymbolData · 350 keys"


def test_a_stateless_step_is_told_from_one_with_state() -> None:
    assert ways(graph_of(load(WORD_COUNT))) == [
        ("source Split and Count", "", "step split into words"),
        ("step split into words", "first_letter", "stateful step Count Word"),
        ("stateful step Count Word", "", "sink Split and Count"),
        ("stateful step Count Word", "", "state word totals"),
    ]


def test_what_merged_pipelines_have_in_common_is_drawn_once() -> None:
    merged = (
        source("A")
        .to(shout)
        .merge(source("B"))
        .key_by(first_letter)
        .to(count_of_pipeline)
        .to_sink(sink)
    )
    drawn = graph(merged)
    assert [group.pipelines for group in drawn.groups] == [("A", "B")]
    assert ways(drawn) == [
        ("source A", "", "step shout"),
        ("step shout", "first_letter", "stateful step count"),
        ("stateful step count", "", "sink A"),
        ("source B", "first_letter", "stateful step count"),
        ("stateful step count", "", "state count"),
    ]


def test_forks_windows_and_keys_that_travel_are_drawn() -> None:
    drawn = graph_of(load(ROOT / "tests" / "features" / "pipelines.py"))
    steps = {node.detail: node for node in nodes(drawn).values() if node.name == "Average"}
    assert {"windows of 10 min every 5 min", "windows of 5 messages"} <= set(steps)
    flow = [way for way in ways(drawn) if not way[2].startswith("state ")]
    assert ("step calibrated", "sensor", "step only value") in flow
    assert ("source Right", "sensor", "step only value") in flow
    assert ("stateful step smooth", "", "stateful step Average") in flow
    assert ("stateful step smooth", "decade", "stateful step Average") in flow
    assert flow.count(("stateful step Average", "", "stateful step number")) == 2
    details = [(state.name, state.detail) for state in drawn.states]
    assert details == [
        ("smooth", "Smooth · any key"),
        ("Average", "windows · any key"),
        ("number", "Numbers · one entity"),
        ("Average#2", "windows · any key"),
    ]


def test_sources_and_sinks_of_other_kinds_are_told_by_their_kind(tmp_path: Path) -> None:
    class Numbers:
        def initial_value(self) -> str:
            return "1"

        def apply(self, _previous: str, /) -> str | None:
            return None

    lines = wallaroo.FileSourceConfig(tmp_path / "in.txt", decode, "lines")
    file = wallaroo.FileSinkConfig(tmp_path / "out.txt", wallaroo.encoder(str.encode))
    merged = wallaroo.source("A", lines).merge(
        wallaroo.source("B", wallaroo.GenSourceConfig(Numbers()))
    )
    drawn = graph(merged.to_sink(file))
    assert [node.detail for node in nodes(drawn).values()] == [
        "file in.txt · decode",
        "file out.txt · encode",
        "generator Numbers",
    ]


def test_state_without_a_key_is_one_entity() -> None:
    drawn = graph(source("A").to(count_of_pipeline).to_sinks([sink, sink]))
    assert [state.detail for state in drawn.states] == ["Count · one entity"]
    assert ways(drawn)[:3] == [
        ("source A", "", "stateful step count"),
        ("stateful step count", "", "sink A"),
        ("stateful step count", "", "sink A 2"),
    ]


def test_a_pipeline_without_sinks_has_nothing_in_common_with_another() -> None:
    builder = wallaroo.ApplicationBuilder("app")
    for name in "AB":
        builder.new_pipeline(name, wallaroo.TCPSourceConfig("", 0, decode)).to(shout).done()
    drawn = graph_of(resolve(builder.build()))
    assert [len(group.nodes) for group in drawn.groups] == [2, 2]


def test_every_node_tells_its_line_of_user_code() -> None:
    drawn = graph(source("A").key_by(first_letter).to(count_of_pipeline).to_sink(sink))
    line = count_of_pipeline.function.__code__.co_firstlineno
    (step,) = [node for node in nodes(drawn).values() if node.kind == "stateful step"]
    assert str(step.place) == f"counting.py:{line}"
    assert all(node.place.line for node in nodes(drawn).values())


def test_mermaid_goes_to_standard_output() -> None:
    result = draw(MARKET_SPREAD)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "flowchart LR"
    assert '  subgraph n1s["pipeline Orders"]' in lines
    assert '  n6[("<b>symbol-data</b><br>SymbolData · 350 keys")]:::state' in lines
    assert '  n1 -->|"symbol_of"| n2' in lines
    assert "  n2 <-.-> n6" in lines


@pytest.mark.parametrize("language", [mermaid, dot])
def test_no_name_breaks_the_text(language: Callable[[Graph], str]) -> None:
    name = 'a "b" | <c> & [d] # e; f\n--> {g}'
    drawn = graph(source(name).to(shout).to_sink(sink), name)
    plain = graph(source("A").to(shout).to_sink(sink), "A")
    text = language(drawn)
    assert text.count("\n") == language(plain).count("\n")
    assert all(c not in text for c in ('"b"', "<c>", "--> {"))


def test_an_svg_tells_the_lines_of_code_as_tooltips(tmp_path: Path) -> None:
    assert draw(MARKET_SPREAD, "--output", tmp_path / "it.svg").exit_code == 0
    root = ET.parse(tmp_path / "it.svg").getroot()
    titles = {title.text for title in root.iter(f"{SVG}title")}
    drawn = graph_of(load(MARKET_SPREAD))
    assert {str(node.place) for node in nodes(drawn).values()} <= titles
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {"Orders", "Check Order", "symbol_of", "symbol-data", "pipeline Market Data"} <= texts


def test_a_png_is_a_png() -> None:
    result = draw(MARKET_SPREAD, "--format", "png")
    assert result.exit_code == 0
    assert result.stdout_bytes.startswith(b"\x89PNG\r\n")


def test_the_end_of_the_name_says_what_to_make(tmp_path: Path) -> None:
    begins = {"svg": b"<?xml", "png": b"\x89PNG", "dot": b"digraph", "mmd": b"flowchart"}
    for suffix, begin in begins.items():
        assert draw(MARKET_SPREAD, "--output", tmp_path / f"it.{suffix}").exit_code == 0
        assert (tmp_path / f"it.{suffix}").read_bytes().startswith(begin)


def test_the_picture_in_the_readme_is_the_one_that_is_drawn_today() -> None:
    drawn = draw(MARKET_SPREAD, "--format", "svg").stdout_bytes
    assert PICTURE.read_bytes() == drawn, f"draw it again: {DRAW_AGAIN}"
    readme = (ROOT / "README.md").read_text()
    assert DRAW_AGAIN in readme
    assert "(docs/market-spread.svg)" in readme


def test_without_graphviz_the_way_to_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(tmp_path))
    result = draw(MARKET_SPREAD, "--format", "svg")
    assert result.exit_code == 2
    assert "pip install graphviz-pure" in result.output
    assert draw(MARKET_SPREAD).exit_code == 0


def test_a_drawing_program_that_fails_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dot").write_text("#!/bin/sh\necho no fonts >&2\nexit 3\n")
    (tmp_path / "dot").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr("sysconfig.get_path", lambda _name: str(tmp_path))
    result = draw(MARKET_SPREAD, "--format", "svg")
    assert result.exit_code == 1
    assert "dot could not draw the graph: no fonts" in result.output


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    result = draw(MARKET_SPREAD, "--output", tmp_path / "no" / "such.svg")
    assert result.exit_code == 1
    assert "such.svg: No such file or directory" in result.output


def test_an_application_that_is_not_well_formed_is_not_drawn(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def application_setup(args):\n    return None\n")
    done = subprocess.run(
        [sys.executable, "-m", "wallaroo", "graph", str(tmp_path / "bad.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "application_setup returned None" in done.stderr


def test_what_an_application_prints_while_it_is_drawn_goes_to_stderr(tmp_path: Path) -> None:
    quiet, loud = tmp_path / "quiet", tmp_path / "loud"
    for directory in (quiet, loud):
        directory.mkdir()
        shutil.copy(WORD_COUNT / "application.py", directory)
    with (loud / "application.py").open("a") as file:
        file.write(PRINTS)
    drawn = {
        directory: subprocess.run(
            [sys.executable, "-m", "wallaroo", "graph", directory], capture_output=True, check=True
        )
        for directory in (quiet, loud)
    }
    assert drawn[loud].stdout == drawn[quiet].stdout
    assert {b"printed", b"written", b"echoed"} <= set(drawn[loud].stderr.split())


PRINTS = """
import os, subprocess
print("printed")
os.write(1, b"written\\n")
subprocess.run(["echo", "echoed"], check=True)
"""
