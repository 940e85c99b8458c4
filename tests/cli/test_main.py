"""The command line where it needs no Spark: help, mistakes, and what they are answered."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner, Result
from scripts.commands_page import PAGE, page

from tests.helpers import MARKET_SPREAD, PATIENCE_S, ROOT, WORD_COUNT
from wallaroo.cli.main import main
from wallaroo.errors import UsageError
from wallaroo.run.state.directory import FORMAT, StateDirectory, read_fixed
from wallaroo.system.sealed_files import sealed, unsealed
from wallaroo.testing import load

COMMANDS = ["new", "run", "check", "graph", "send", "receive", "demo", "log"]
GROUPS = ["dead-letters", "state"]
ADDRESSES = ("--in", "127.0.0.1:0", "--out", "127.0.0.1:1")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def call(*arguments: str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, arguments, prog_name="wallaroo")


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "wallaroo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def assert_told(result: Result, exit_code: int, *said: str) -> None:
    assert result.exit_code == exit_code, result.output
    assert "Traceback" not in result.output
    for part in said:
        assert part in result.output


@pytest.mark.parametrize("command", COMMANDS + GROUPS)
def test_help_shows_an_example(command: str) -> None:
    result = call(command, "--help")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    at = lines.index("  Example:")
    assert lines[at + 1].startswith(f"    wallaroo {command} ")


def test_help_of_the_command_itself_tells_what_to_try_and_the_exit_codes() -> None:
    result = call("--help")
    assert "    wallaroo demo market_spread\n" in result.output
    assert "Exit codes: 0 done, 1 failed, 2 usage error, 130 ended by Ctrl-C." in result.output
    assert all(f"  {command} " in result.output for command in COMMANDS)


@pytest.mark.parametrize(
    "command", [[], *[[command] for command in [*COMMANDS, *GROUPS, "gateway"]]]
)
def test_help_has_no_stray_escapes(command: list[str]) -> None:
    assert "\\b" not in call(*command, "--help").output


def test_the_version_is_told() -> None:
    assert call("--version").output.startswith("wallaroo, version ")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_its_arguments_is_called_the_wrong_way(command: str) -> None:
    assert_told(call(command), 2, "Missing ")


def test_a_missing_in_is_told() -> None:
    result = call("run", str(WORD_COUNT), "--out", "127.0.0.1:1")
    assert_told(result, 2, "--in is missing", "add --in HOST:PORT")


def test_a_missing_out_is_told() -> None:
    result = call("run", str(WORD_COUNT), "--in", "127.0.0.1:0")
    assert_told(result, 2, "--out is missing", "add --out HOST:PORT")


def test_too_few_addresses_are_told() -> None:
    result = call("run", str(MARKET_SPREAD), *ADDRESSES)
    assert_told(result, 2, "--in has 1 address, but the application uses address number 2")


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1", "127.0.0.1:70000", "a:1,,b:2"])
def test_a_bad_address_is_told(address: str) -> None:
    result = call("run", str(WORD_COUNT), "--in", address, "--out", "127.0.0.1:1")
    assert_told(result, 2, "Error: --in: ")


def test_an_application_that_is_not_there_is_told() -> None:
    assert_told(call("run", "no/such/app", *ADDRESSES), 2, "no application found at no/such/app")


def test_a_directory_that_is_no_application_is_told(tmp_path: Path) -> None:
    assert_told(call("run", str(tmp_path), *ADDRESSES), 2, "has no application.py")


def test_an_application_that_does_not_import_is_told(tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text("import no_such_library\n")
    result = call("run", str(tmp_path), *ADDRESSES)
    assert_told(result, 1, "cannot be imported", "'no_such_library'", "application.py:1")


def test_an_application_without_application_setup_is_told(tmp_path: Path) -> None:
    (tmp_path / "application.py").write_text("")
    result = call("run", str(tmp_path), *ADDRESSES)
    assert_told(result, 1, "has no function application_setup(args)")


def test_an_application_that_is_not_well_formed_is_told(tmp_path: Path) -> None:
    text = "import wallaroo\ndef application_setup(args):\n"
    (tmp_path / "application.py").write_text(
        text + "    return wallaroo.ApplicationBuilder('Empty').build()\n"
    )
    result = call("run", str(tmp_path), *ADDRESSES)
    assert_told(result, 1, "'Empty' is invalid", "application.py:3", "has no pipeline")


@pytest.mark.parametrize(
    "option", [("--workers", "0"), ("--conf", "x"), ("--max-frame", "-1"), ("--no-such-option",)]
)
def test_a_bad_option_is_told(option: tuple[str, ...]) -> None:
    assert_told(call("run", str(WORD_COUNT), *ADDRESSES, *option), 2, "Error: ", option[0])


def test_a_state_directory_of_another_application_is_told(tmp_path: Path) -> None:
    told = {"application": "Other", "partitions": 1, "buckets": 8, "format": FORMAT}
    (tmp_path / "application.json").write_text(sealed(told))
    result = call("run", str(WORD_COUNT), *ADDRESSES, "--state-dir", str(tmp_path))
    assert_told(result, 2, "belongs to the application 'Other'", "choose another --state-dir")


def test_a_state_directory_of_another_format_is_told(tmp_path: Path) -> None:
    (tmp_path / "application.json").write_text(json.dumps({"format": 99}))
    result = call("run", str(WORD_COUNT), *ADDRESSES, "--state-dir", str(tmp_path))
    assert_told(result, 2, "has format 99", "choose another --state-dir")


def test_a_state_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    where = str(tmp_path / "file" / "state")
    result = call("run", str(WORD_COUNT), *ADDRESSES, "--state-dir", where)
    assert_told(result, 1, f"the state directory {where} cannot be used: ")


def test_a_port_in_use_is_told_with_the_source(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = process(
            *("run", str(WORD_COUNT), "--in", address, "--out", "127.0.0.1:1"),
            *("--state-dir", str(tmp_path)),
        )
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert f"source 'Split and Count' cannot listen on {address}" in result.stderr
    assert "choose another address with --in" in result.stderr


def test_a_demo_that_is_not_there_is_told() -> None:
    assert_told(call("demo", "no_such_demo"), 2, "there is no application 'no_such_demo'")


def test_the_gateway_tells_its_addresses_and_ends_when_its_input_does(tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "wallaroo", "gateway", str(WORD_COUNT), *ADDRESSES),
        *("--state-dir", str(tmp_path), "--listen", f"unix:{tmp_path}/g.sock"),
        *("--child", "--log-level", "error"),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as gateway:
        assert gateway.stdin is not None
        assert gateway.stdout is not None
        (source,) = json.loads(gateway.stdout.readline())["sources"]
        host, _, port = source["where"].rpartition(":")
        socket.create_connection((host, int(port)), PATIENCE_S).close()
        gateway.stdin.close()
        assert gateway.wait(PATIENCE_S) == 0


def test_check_tells_what_an_application_is_made_of() -> None:
    result = CliRunner().invoke(main, ["check", str(MARKET_SPREAD)])
    assert result.exit_code == 0
    assert "Orders → Check Order [symbol-data] → sink" in result.output
    assert "state 'symbol-data': 350 keys" in result.output


def test_an_application_that_unpacks_names_can_be_checked_without_addresses(tmp_path: Path) -> None:
    (tmp_path / "named.py").write_text(
        "import wallaroo\n"
        "def application_setup(args):\n"
        "    name, host, port = wallaroo.tcp_parse_input_addrs(args)[0]\n"
        "    config = wallaroo.TCPSourceConfig(name, host, port, decode)\n"
        "    lines = wallaroo.source('Lines', config)\n"
        "    sink = wallaroo.FileSinkConfig('lines.txt', wallaroo.encoder(str))\n"
        "    return wallaroo.build_application('named', lines.to_sink(sink))\n"
        "decode = wallaroo.decoder(header_length=4, length_fmt='>I')(bytes.decode)\n"
    )
    result = CliRunner().invoke(main, ["check", str(tmp_path / "named.py")])
    assert_told(result, 0, "Lines → sink")


@pytest.mark.parametrize("command", ["check", "graph", "simulate"])
def test_an_application_that_parses_its_arguments_strictly_needs_no_addresses(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "strict.py").write_text(
        "import argparse\n"
        "import wallaroo\n"
        "def application_setup(args):\n"
        "    parser = argparse.ArgumentParser()\n"
        "    parser.add_argument('--in-port', type=int, default=7010)\n"
        "    port = parser.parse_args(args).in_port\n"
        "    lines = wallaroo.source('Lines', wallaroo.TCPSourceConfig('', port, decode))\n"
        "    sink = wallaroo.FileSinkConfig('lines.txt', wallaroo.encoder(str))\n"
        "    return wallaroo.build_application('strict', lines.to_sink(sink))\n"
        "decode = wallaroo.decoder(header_length=4, length_fmt='>I')(bytes.decode)\n"
    )
    app = str(tmp_path / "strict.py")
    said = "0 messages" if command == "simulate" else "Lines"
    assert_told(CliRunner().invoke(main, [command, app]), 0, said)
    assert load(app).sources[0].port == 7010  # type: ignore[attr-defined]
    assert load(app, ["--in-port", "7"]).sources[0].port == 7  # type: ignore[attr-defined]
    refused = CliRunner().invoke(main, [command, app, "--", "--in-port", "seven"])
    assert_told(refused, 1, "it was called with ['--in-port', 'seven'], which")


def test_a_source_that_listens_is_never_done(tmp_path: Path) -> None:
    state = tmp_path / "state"
    result = call("run", str(WORD_COUNT), *ADDRESSES, "--until-done", "--state-dir", str(state))
    assert_told(
        result, 2, "--until-done: source 'Split and Count' listens on 127.0.0.1:0 and never"
    )
    assert not state.exists()


def test_check_tells_all_that_is_wrong_with_an_application(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "import wallaroo\n"
        "def application_setup(args):\n"
        "    builder = wallaroo.ApplicationBuilder('bad')\n"
        "    builder.new_pipeline('p', wallaroo.TCPSourceConfig('', 0, len)).to(len)\n"
        "    return builder.build()\n"
    )
    result = CliRunner().invoke(main, ["check", str(tmp_path / "bad.py")])
    assert result.exit_code == 1
    assert result.output.count("bad.py:4: ") == 3


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("ignore", "'ignore' is not one of set-aside, stop, drop"),
        ("Nobody=drop", "there is no source 'Nobody'; the sources are: Split and Count"),
    ],
)
def test_a_policy_that_cannot_be_is_told(policy: str, said: str, tmp_path: Path) -> None:
    state = ("--state-dir", str(tmp_path / "state"))
    result = call("run", str(WORD_COUNT), *ADDRESSES, *state, "--on-error", policy)
    assert_told(result, 2, said)
    assert not (tmp_path / "state").exists()


def test_tls_without_a_certificate_is_told(tmp_path: Path) -> None:
    missing, state = str(tmp_path / "missing.pem"), str(tmp_path / "state")
    options = ("--state-dir", state, "--listen", "127.0.0.1:0", "--in-tls-cert", missing)
    result = call("gateway", str(WORD_COUNT), *ADDRESSES, *options)
    assert_told(result, 2, "missing.pem cannot be used for TLS: No such file or directory")


@pytest.mark.parametrize("command", ["run", "gateway"])
def test_a_sink_at_port_0_is_refused(command: str, tmp_path: Path) -> None:
    state = tmp_path / "state"
    listen = ("--listen", "127.0.0.1:0") if command == "gateway" else ()
    addresses = ("--in", "127.0.0.1:0", "--out", "127.0.0.1:0", "--state-dir", str(state))
    result = process(command, str(WORD_COUNT), *addresses, *listen)
    assert result.returncode == 2
    assert "sink 'Split and Count' sends to 127.0.0.1:0, but no receiver can listen on port 0" in (
        result.stderr
    )
    assert not state.exists()


def test_a_state_directory_that_is_not_there_is_not_repartitioned(tmp_path: Path) -> None:
    state = str(tmp_path / "nosuch")
    asked = ("--state-dir", state, "--partitions", "4")
    result = call("repartition", str(WORD_COUNT), *ADDRESSES, *asked)
    assert_told(result, 2, f"there is no directory {state}: use the state directory of the")


def test_a_state_directory_that_no_application_was_in_needs_no_repartitioning(
    tmp_path: Path,
) -> None:  # on a cluster, the first start may be one that repartitions
    asked = ("--state-dir", str(tmp_path), "--partitions", "4")
    result = call("repartition", str(WORD_COUNT), *ADDRESSES, *asked)
    assert_told(result, 0, "nothing to repartition")


def test_a_directory_of_the_micro_batch_engine_is_refused_by_name(tmp_path: Path) -> None:
    StateDirectory(tmp_path, "Word Count Application", 4).close()
    file, checkpoint = tmp_path / "application.json", tmp_path / "checkpoint"
    fixed = unsealed(file.read_text())
    file.write_text(sealed({**fixed, "format": 5}))
    with pytest.raises(UsageError, match="has format 5, but this version of wallaroo reads format"):
        read_fixed(tmp_path)
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text('{"id":"x"}')
    (checkpoint / "engine").write_text("real-time")
    with pytest.raises(UsageError, match="has format 5, but this version of wallaroo reads format"):
        read_fixed(tmp_path)
    (checkpoint / "engine").write_text("micro-batch")
    asked = ("repartition", str(WORD_COUNT), *ADDRESSES, "--state-dir", str(tmp_path))
    result = call(*asked, "--partitions", "4")
    by_name = "is of the micro-batch engine, which this version of wallaroo does not have; choose"
    remedy = "`wallaroo state import` brings the entities that `wallaroo state export`"
    assert_told(result, 2, by_name, remedy)


def test_a_receiver_that_cannot_be_resolved_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("a\n")
    result = call("send", str(tmp_path / "lines"), "--to", "a..b:1", "--framing", "lines")
    assert_told(result, 2, "invalid host name")


def test_the_reference_has_the_help_of_every_command() -> None:
    assert PAGE.read_text() == page(), "run: make commands"
