"""Settings for librdkafka, whose secrets are never shown."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from wallaroo.connectors.kafka.client import TopicClient
from wallaroo.connectors.kafka.settings import VARIABLE, settings_of
from wallaroo.connectors.kafka.topic import Topic
from wallaroo.errors import RuntimeFailure


def test_files_and_the_configuration_are_merged(tmp_path: Path) -> None:
    for_all, own = tmp_path / "all", tmp_path / "own"
    for_all.write_text("# for all\n\nsasl.username = shop\nsasl.password=a=b\nlinger.ms=1\n")
    own.write_text("linger.ms=2\n")
    topic = Topic("t", "a:1", {"compression.type": "zstd"}, own)
    settings = settings_of(topic, {VARIABLE: str(for_all)})
    assert settings.options == {
        "sasl.username": "shop",
        "sasl.password": "a=b",
        "linger.ms": "2",
        "compression.type": "zstd",
    }
    assert settings.redacted("a=b of shop") == "… of shop"


def test_harmless_settings_of_files_are_shown(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("ssl.ca.location=/etc\nsasl.oauthbearer.config=scope=all\nsasl.user=shop-1\n")
    settings = settings_of(Topic("t", "a:1", {}, own), {})
    assert settings.redacted("/etc, scope=all, shop-1") == "/etc, …, …"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("isolation.level=read_uncommitted", r"own:1: isolation.level cannot be set"),
        ("\nsecurity.protocol", r"own:2 is not a setting; write name=value"),
    ],
)
def test_a_setting_that_cannot_be_is_told_with_its_line(
    tmp_path: Path, text: str, told: str
) -> None:
    own = tmp_path / "own"
    own.write_text(text)
    with pytest.raises(RuntimeFailure, match=told):
        settings_of(Topic("t", "a:1", {}, own), {})


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match=r"none, which has settings .* cannot be read"):
        settings_of(Topic("t", "a:1", {}, tmp_path / "none"), {})


def test_a_codec_that_is_unknown_is_told_at_the_start() -> None:
    topic = Topic("orders", "a:1", {"compression.type": "brotli"})
    with pytest.raises(RuntimeFailure) as raised:
        TopicClient(topic, threading.Event()).check()
    told = str(raised.value)
    assert told.startswith('topic orders at a:1: Invalid value "brotli"')
    assert told.endswith("correct it in settings of the configuration")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("sasl.mechanisms=CRAM", "mechanism: CRAM"),
        ("enable.idempotent=TOPSECRET", "enable.idempotent"),
        ("enable.gapless.guarantee=TOPSECRET", "enable.gapless.guarantee"),
    ],
)
def test_what_librdkafka_refuses_is_told_without_secrets(
    tmp_path: Path, line: str, told: str
) -> None:
    own = tmp_path / "own"
    own.write_text(f"security.protocol=SASL_PLAINTEXT\n{line}\n")
    client = TopicClient(Topic("t", "a:1", {}, own), threading.Event())
    with pytest.raises(RuntimeFailure) as raised:
        client.check()
    assert told in str(raised.value)
    assert "TOPSECRET" not in str(raised.value)
    assert str(own) in str(raised.value)


def test_several_files_may_be_named_of_which_the_last_one_counts(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("shared", "secret")]
    for file, level in zip(files, (3, 7), strict=True):
        file.write_text(f"{file.name}.group={file}\ncompression.level={level}\n")
    settings = settings_of(Topic("t", "a:1"), {VARIABLE: ":".join(map(str, files))})
    assert settings.options == {
        "shared.group": str(files[0]),
        "secret.group": str(files[1]),
        "compression.level": "7",
    }
    assert settings.files == tuple(files)


def test_without_the_extra_it_is_told_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(RuntimeFailure, match=r"pip install wallaroo\[kafka\]"):
        TopicClient(Topic("t", "a:1"), threading.Event())
