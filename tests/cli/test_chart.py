from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.charts.harness import SdkHelm, pod_spec
from tests.helpers import ROOT
from wallaroo import __version__
from wallaroo.cli.main import main

APPLICATION = """\
import wallaroo


def application_setup(args):
    builder = wallaroo.ApplicationBuilder({name!r})
    for source in {sources!r}:
        builder.new_pipeline(source, wallaroo.TCPSourceConfig("127.0.0.1", 0, decode))
        builder.to(keep)
        builder.to_sink(wallaroo.TCPSinkConfig("127.0.0.1", 9, encode))
    return builder.build()


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload):
    return payload


@wallaroo.computation(name="keep")
def keep(message):
    return message


@wallaroo.encoder
def encode(message):
    return message
"""


def write(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["chart", *arguments])
    return done.exit_code, done.output


def application(tmp_path: Path, name: str, *sources: str) -> str:
    module = tmp_path / "application.py"
    module.write_text(APPLICATION.format(name=name, sources=sources))
    return str(module)


def values(chart: Path) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((chart / "values.yaml").read_text())
    return read


@pytest.fixture
def helm() -> SdkHelm:
    pytest.importorskip("helm_python")
    return SdkHelm()


def test_a_chart_installs_the_application_and_needs_no_other_file(
    tmp_path: Path, helm: SdkHelm
) -> None:
    chart = tmp_path / "chart"
    code, said = write(str(ROOT / "apps" / "market_spread"), "--directory", str(chart))
    assert code == 0, said
    assert f"helm install market-spread {chart}" in said
    assert not [path for path in chart.rglob("*") if path.is_symlink()]
    objects = helm.objects(chart)
    (service,) = [
        o for o in objects if o["kind"] == "Service" and o["metadata"]["name"].endswith("-sources")
    ]
    ports = [(port["name"], port["port"]) for port in service["spec"]["ports"]]
    assert ports == [("orders", 7010), ("market-data", 7011)]
    images = {
        container["image"]
        for component in ("gateway", "driver")
        for container in pod_spec(objects, component)["containers"]
    }
    assert images == {"localhost/market-spread:0.1.0"}


def test_a_chart_has_an_icon_and_tells_how_to_use_it(tmp_path: Path, helm: SdkHelm) -> None:
    chart = tmp_path / "chart"
    code, said = write(
        application(tmp_path, "Votes", "votes"), "--directory", str(chart), "--repository", "r/v"
    )
    assert code == 0, said
    assert helm.lint(chart) == []
    assert yaml.safe_load((chart / "Chart.yaml").read_text())["icon"].startswith("data:image/svg")
    readme = (chart / "README.md").read_text()
    assert f"wallaroo build application.py -t r/v:{__version__}\n" in readme
    assert "helm install votes .\n" in readme
    examples = {example.name for example in (chart / "charts/wallaroo/examples").iterdir()}
    assert (
        set(re.findall(r"^- `charts/wallaroo/examples/(.+?)`: ", readme, re.MULTILINE)) == examples
    )


def test_names_of_any_kind_become_those_that_kubernetes_takes(
    tmp_path: Path, helm: SdkHelm
) -> None:
    app = application(
        tmp_path, "7 Prüfungen & Söhne", "Ägypten", "inner", "日本", "A long name indeed"
    )
    chart = tmp_path / "chart"
    code, said = write(
        app, "--directory", str(chart), "--repository", "registry.example/p", "--", "--x", "1"
    )
    assert code == 0, said
    assert "helm install pr-fungen-s-hne" in said
    assert [source["name"] for source in values(chart)["sources"]] == [
        *("gypten", "source-2", "source-3", "a-long-name-ind"),
    ]
    assert values(chart)["args"] == ["--x", "1"]
    assert values(chart)["image"] == {"repository": "registry.example/p"}
    assert helm.objects(chart)


def test_a_directory_with_content_is_not_overwritten(tmp_path: Path) -> None:
    app = application(tmp_path, "a", "a")
    code, said = write(app, "--directory", str(tmp_path))
    assert code == 2
    assert "exists and is not empty; choose another --directory" in said


def test_a_name_without_a_latin_letter_is_refused(tmp_path: Path) -> None:
    code, said = write(application(tmp_path, "日本", "a"))
    assert code == 2
    assert "the application's name '日本' has no letter that a chart's name may contain" in said


def test_ports_of_sinks_that_viewers_connect_to_are_values(tmp_path: Path, helm: SdkHelm) -> None:
    app = application(tmp_path, "Prices", "quotes")
    module = tmp_path / "application.py"
    listening = module.read_text().replace(
        'TCPSinkConfig("127.0.0.1", 9, ', 'SSESinkConfig("0.0.0.0", 7020, '
    )
    module.write_text(listening)
    chart = tmp_path / "chart"
    code, said = write(app, "--directory", str(chart))
    assert code == 0, said
    assert [source["name"] for source in values(chart)["sources"]] == ["quotes"]
    assert values(chart)["events"] == [{"name": "events-2", "port": 7020}]
    (service,) = (
        o["spec"]
        for o in helm.objects(chart)
        if o["kind"] == "Service" and o["metadata"]["name"].endswith("-events")
    )
    assert [port["port"] for port in service["ports"]] == [7020]
