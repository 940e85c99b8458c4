"""Configurations of sources and sinks that are files of frames or lines."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from wallaroo.api.class_api import AnyEncoder, PayloadDecoder
from wallaroo.api.connectors import AnySink, AnySource
from wallaroo.api.durations import AnyDuration, EventTime
from wallaroo.api.functions import In_contra, Result_co
from wallaroo.api.places import calling_place


class FileSourceConfig(AnySource[Result_co]):
    """A source that reads a file, each message exactly once across restarts.

    Args:
        path: Path of the file, relative to the application's directory. The file may grow, but the
            part that has been read must not change. If it is followed, it may also be rotated
            (renamed, or copied and truncated) in its directory.
        decoder: Decoder of the payloads. For frames, it also defines their layout.
        framing: "frames" if a header precedes each payload, "lines" if each line is a message,
            without its line feed.
        follow: Whether to wait for more data at the end of the file; if False, the source ends
            there.
        time: From a message to its time, by which the source is read in the order of time with
            others; see "Several sources" in the documentation of windows.
        idle: For how long others wait for it if it has more and cannot be read; a minute if None.
    """

    connector = __package__

    def __init__(
        self,
        path: str | os.PathLike[str],
        decoder: Callable[[bytes], Result_co | None] | PayloadDecoder[Result_co | None],
        framing: Literal["frames", "lines"] = "frames",
        follow: bool = False,
        *,
        time: EventTime | None = None,
        idle: AnyDuration | None = None,
    ) -> None:
        self.path = Path(path).absolute()
        self.decoder = decoder
        self.framing = framing
        self.follow = follow
        self.time = time
        self.idle = idle
        self.place = calling_place()


class FileSinkConfig(AnySink[In_contra]):
    """A sink that appends to a file, each output exactly once across restarts and kills.

    No other program may write to the file. The sink stores its position in `PATH.position`; when it
    opens the file, it truncates it to that position, which removes a partial write after a kill.

    Args:
        path: Path of the file, relative to the application's directory. It is created if necessary.
        encoder: Encoder of the outputs.
        framing: "none" to write outputs as they are, "lines" to write a line feed after each.
        on_lost: What to do if the file has become shorter, or was restored from a backup: `"stop"`
            writing with an error, or `"skip"` what is missing.
    """

    connector = __package__

    def __init__(
        self,
        path: str | os.PathLike[str],
        encoder: AnyEncoder[In_contra],
        framing: Literal["none", "lines"] = "none",
        *,
        on_lost: Literal["stop", "skip"] = "stop",
    ) -> None:
        self.path = Path(path).absolute()
        self.encoder = encoder
        self.framing = framing
        self.on_lost = on_lost
        self.place = calling_place()
