"""A sender of the acknowledged protocol, frame by frame."""

from __future__ import annotations

import socket
import ssl
from typing import Self

from tests.helpers import PATIENCE_S
from wallaroo.wire.acknowledged import (
    PAYLOADS,
    PREAMBLE,
    Ack,
    Frame,
    FrameCutter,
    Hello,
    Messages,
    Refusal,
    Welcome,
    encode,
)


class Speaker:
    """One end of the protocol, frame by frame."""

    def __init__(
        self,
        address: tuple[str, int],
        stream: str | None = "s",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.socket = socket.create_connection(address, PATIENCE_S)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=address[0])
        self._cutter = FrameCutter(1 << 20)
        self._heard: list[Frame] = []
        self.socket.sendall(PREAMBLE)
        if stream is not None:
            self.say(Hello(1, stream))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.socket.close()

    def say(self, *frames: Frame) -> None:
        self.socket.sendall(b"".join(map(encode, frames)))

    def send(self, first: int, *payloads: bytes) -> None:
        self.say(messages(first, *payloads))

    def hear(self) -> Frame:
        while not self._heard:
            data = self.socket.recv(1 << 16)
            assert data, "the connection ended"
            self._heard = self._cutter.feed(data)
        return self._heard.pop(0)

    def acknowledged(self, number: int) -> None:
        """Wait until *number* is acknowledged."""
        while True:
            frame = self.hear()
            assert isinstance(frame, (Ack, Welcome))
            if frame.last >= number:
                assert frame.last == number
                return

    def refused(self) -> str:
        """The reason of the refusal that comes, and after which nothing comes."""
        while not isinstance(frame := self.hear(), Refusal):
            pass
        assert self.socket.recv(1) == b""
        return frame.reason


def messages(first: int, *payloads: bytes) -> Messages:
    return Messages(first, b"".join(map(PAYLOADS.frame, payloads)))
