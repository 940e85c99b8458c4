"""An application in several files, written as it is and with changes."""

from __future__ import annotations

import shutil
from pathlib import Path

APPLICATION = """
import wallaroo
from texts import WORD


def application_setup(args):
    host, port = wallaroo.tcp_parse_input_addrs(args)[0]
    to_host, to_port = wallaroo.tcp_parse_output_addrs(args)[0]
    counted = (
        wallaroo.source("Keys", wallaroo.TCPSourceConfig(host, port, decode))
        .key_by(key_of)
        .to(count)
        .to_sink(wallaroo.TCPSinkConfig(to_host, to_port, encode))
    )
    return wallaroo.build_application("reloaded", counted)


class Total:
    def __init__(self):
        self.messages = 0


@wallaroo.decoder(header_length=4, length_fmt=">I")
def decode(payload):
    return payload.decode()


@wallaroo.key_extractor
def key_of(key):
    return key


@wallaroo.state_computation(name="count", state=Total)
def count(key, total):
    total.messages += 1
    return f"{WORD} {key} {total.messages}\\n"


@wallaroo.encoder
def encode(line):
    return line.encode()
"""
TEXTS = 'WORD = "one"\n'
ARGUMENTS = ("--in", "127.0.0.1:0", "--out", "127.0.0.1:1")


def write(directory: Path) -> Path:
    """Write it to *directory*."""
    (directory / "application.py").write_text(APPLICATION)
    (directory / "texts.py").write_text(TEXTS)
    return directory


def change(directory: Path, old: str, new: str, file: str = "application.py") -> None:
    """Replace *old* in a file by *new*."""
    text = (directory / file).read_text()
    assert old in text
    (directory / file).write_text(text.replace(old, new))
    # a file that was compiled within the same second, and is as long, would not be compiled again
    shutil.rmtree(directory / "__pycache__", ignore_errors=True)
