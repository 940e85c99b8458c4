"""What SECURITY.md lists as settings can be set."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.connectors.http.test_memory import TIMES
from tests.formats.test_hostile import SWELLING, TO_STATE
from tests.helpers import ROOT
from tests.kafka import test_memory as memory
from wallaroo.cli.gateway import gateway
from wallaroo.cli.run import run
from wallaroo.connectors.http.requests import MOST_LINES
from wallaroo.gateway.chunks import peers as chunks
from wallaroo.gateway.http.serving import HEAD_BYTES
from wallaroo.gateway.internal_api import front, service
from wallaroo.gateway.internal_api.calls import CALL_BYTES
from wallaroo.gateway.internal_api.service import MOST_CALLS
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.limits import SourceLimits
from wallaroo.system.token_attempts import Attempts
from wallaroo.wire.framing import DEFAULT_MAX_FRAME

PAGE = " ".join((ROOT / "SECURITY.md").read_text().split())
MIB = 1024**2
ROLES = ("senders", "receivers", "other users of the machine", "pods", "namespace", "volumes")

SECTION = (ROOT / "SECURITY.md").read_text().partition("## What is on by default")[2]
_ROWS = re.findall(r"^\|.*\| ([^|]*) \|$", SECTION.partition("\n## ")[0], re.MULTILINE)
NAMED = re.findall(r"`([^`]+)`", "\n".join(_ROWS[2:]))
VALUES = yaml.safe_load((ROOT / "helm" / "wallaroo" / "values.yaml").read_text())


@pytest.mark.parametrize("name", sorted(set(NAMED)))
def test_a_setting_of_the_table_of_defaults_is_there(name: str) -> None:
    if name.startswith("--"):
        options = {
            option
            for command in (run, gateway)
            for parameter in command.params
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        assert name in options
        return
    found: Any = VALUES["exports"]["defaults"]
    for part in name.split("."):
        assert part in found
        found = found[part]


def test_the_table_names_settings_of_both() -> None:
    assert {"--in-tls-cert", "tls.sources.secretName", "--idle-timeout"} <= set(NAMED)


def roles() -> Iterator[list[str]]:
    """The cells of each row of the threat model."""
    behind = (ROOT / "SECURITY.md").read_text().partition("\n## Threat model\n")[2]
    table = behind.partition("\n## ")[0].partition("\n|---")[2]
    for row in table.split("\n\n")[0].splitlines()[1:]:
        yield re.split(r" *\| *", row.strip("| "))


@pytest.mark.parametrize("role", ROLES)
def test_the_threat_model_says_of_each_role_what_it_can_do_and_what_not(role: str) -> None:
    found = [cells for cells in roles() if role in cells[0]]
    assert found
    for cells in found:
        assert len(cells) == 6
        assert all(cells)


@pytest.mark.parametrize(
    "sentence",
    [
        f"until a call with the token is accepted, {HEAD_BYTES // 1024} KiB of a "
        f"connection are read, for {front.STRANGER_S:g} s",
        f"at most {front.MOST_STRANGERS} such connections are served at a time",
        f"{CALL_BYTES // 1024} KiB for a call, {service._BODY_S:g} s for its body, "
        f"and {MOST_CALLS:,} calls at a time",
        f"serves at most {chunks._MOST_STRANGERS} unproven peers at a time",
        f"first proves within {chunks._HELLO_S:g} s that it knows the token",
        f"one every {Attempts.EVERY_S:g} s, over both ports together",
        f"{SourceLimits.held_bytes // MIB} MiB of incomplete frames over all",
        f"{JournalLimits().streams:,} streams) is rejected or waits",
        f"{SourceLimits.held_bytes // MIB} MiB over all connections, half of it from one address "
        f"| {SourceLimits.held_bytes // MIB} MiB | gateway",
        f"`--max-frame` ({DEFAULT_MAX_FRAME // MIB} MiB), and {MOST_LINES:,} lines | {TIMES} times "
        "its size | gateway",
        f"`receive.message.max.bytes` ({memory.BOUND_BYTES // 1_000_000} MB) of contents, then a "
        f"dead letter | {memory.TIMES} times its contents, and {memory.RECORD_BYTES / 1000} kB for "
        "each record | gateway",
        f"{memory.TIMES} × 1,030 × `kafka.maxBatchBytes`",
        f"is enough: {memory.TIMES} × {memory.BOUND_BYTES // 1_000_000} MB",
        f"{JournalLimits().memory_bytes // MIB} MiB, then sources wait | "
        f"{JournalLimits().memory_bytes // MIB} MiB | gateway",
    ],
)
def test_the_limits_that_the_page_names_are_those_of_the_code(sentence: str) -> None:
    assert sentence in PAGE


def test_the_charts_have_the_memory_that_the_page_names() -> None:
    templates = "".join(file.read_text() for file in (ROOT / "helm/wallaroo/templates").iterdir())
    gateway, executor = re.findall(r"\(list \. (\d+) (\d+) (\d+)\)", templates)
    if gateway[1] != str(4 * TIMES):
        gateway, executor = executor, gateway
    assert f"a gateway has {gateway[0]} MiB for the first rows and {4 * TIMES} times" in PAGE
    assert f"an executor has {executor[0]} MiB outside of Java's heap" in PAGE
    assert f"and {executor[1]} times what is in progress at a time" in PAGE
    assert executor[1:] == (str(TO_STATE), "16")
    assert gateway[2] == "0"
    assert f"mul {memory.TIMES * 1030} (int64 .Values.kafka.maxBatchBytes)" in templates
    assert (
        f"the largest frame ({VALUES['exports']['defaults']['maxFrameBytes'] // MIB} MiB)" in PAGE
    )


@pytest.mark.parametrize(
    ("words", "decoder"),
    [
        ("{} times its size in JSON", "json"),
        ("{} times in MessagePack and Avro", "msgpack"),
        ("{} times in MessagePack and Avro", "avro, lists"),
        ("{} times in Protobuf", "protobuf"),
        ("{} times in CSV", "csv"),
    ],
)
def test_the_multiples_that_the_page_names_are_those_that_a_test_holds(
    words: str, decoder: str
) -> None:
    most = max(one.times for one in SWELLING if one.decoder == decoder)
    (named,) = re.findall(words.format(r"(\d+)"), PAGE)
    assert 0.7 * most <= int(named) <= most
