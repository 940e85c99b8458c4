"""From the configuration of a source to its normal form, which its connector makes."""

from __future__ import annotations

import functools
import importlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from wallaroo.api.builder import DeclaredPipeline
from wallaroo.api.connectors import AnySource
from wallaroo.api.durations import EventTime, not_negative_ns
from wallaroo.api.functions import Decoder
from wallaroo.api.places import Place, place_of
from wallaroo.errors import WallarooParameterError
from wallaroo.model.application import Serialization
from wallaroo.model.endpoints import IDLE_NS, Source
from wallaroo.resolution.class_api import decoder_of
from wallaroo.resolution.problems import (
    Problems,
    describe,
    described_with,
    makes_codecs,
    missing_instance,
    name_of,
    not_a,
    not_decorated,
    whole_number,
)
from wallaroo.wire.framing import Framing
from wallaroo.wire.refusals import decoding_refusals

_PICKLE = Serialization(functools.partial(pickle.dumps, protocol=5), pickle.loads)


class SourceResolver:
    """Resolves the sources of an application.

    Args:
        problems: Receives every mistake.
        max_frame: Largest payload in bytes, for sources that set no limit.
        serialization: The application's, for the values of generators; None for pickle.
    """

    def __init__(
        self, problems: Problems, max_frame: int, serialization: Serialization | None
    ) -> None:
        self._problems = problems
        self._max_frame = max_frame
        self._values = serialization or _PICKLE

    def source(self, declared: DeclaredPipeline) -> Source:
        """The source of a pipeline; valid only if no problem was found."""
        config, where = declared.source, f"pipeline {declared.name!r}"
        if not isinstance(config, AnySource):
            problem = f"{where}: {describe(config)} is not a source configuration"
            self._problems.add(declared.place, problem + described_with(config, "source"))
            return _Unresolved(declared.name, Framing(4, ">I"), bytes, declared.place)
        context = SourceContext(
            declared, config, where, self._problems, self._max_frame, self._values
        )
        resolving = importlib.import_module(f"{config.connector}.resolve")
        resolved: Source = resolving.source(config, context)
        repeatable = getattr(getattr(config, "decoder", None), "repeatable", False) is True
        decode = decoding_refusals(resolved.decode) if resolved.refuses else resolved.decode
        time, idle_ns = context.times()
        return replace(resolved, repeatable=repeatable, decode=decode, time=time, idle_ns=idle_ns)


class SourceContext:
    """What a connector resolves the configuration of a source with.

    Args:
        declared: The pipeline that has the source.
        config: The configuration.
        where: What messages begin with.
        problems: Receives every mistake.
        max_frame: Largest payload in bytes, unless the source sets a limit.
        values: How values of Python lie in the journal.
    """

    def __init__(
        self,
        declared: DeclaredPipeline,
        config: AnySource[Any],
        where: str,
        problems: Problems,
        max_frame: int,
        values: Serialization,
    ) -> None:
        self.name = declared.name
        self.declared_at = declared.place
        self.max_frame = max_frame
        self.values = values
        self.frames = Framing(4, ">I", max_frame)
        """How payloads that do not arrive in frames lie in the journal."""
        self._config: Any = config
        self._where = where
        self._problems = problems

    @property
    def place(self) -> Place:
        """Where the decoder is defined, or used if the application does not define it."""
        return place_of(self._config.decoder, self._config.place)

    def report(self, *problems: str) -> None:
        """Report mistakes in the configuration."""
        for problem in problems:
            self._problems.add(self._config.place, f"{self._where}: {problem}")

    def check_arity(self, function: Any, count: int, what: str, takes: str) -> None:
        """Report *function*, which is *what* of the source, unless it takes *count* arguments."""
        self._problems.check_arity(function, count, f"{self._where}: {what}", takes, returns=True)

    def times(self) -> tuple[EventTime | None, int]:
        """What finds the times of messages, and for how long others wait for the source."""
        time, idle = (getattr(self._config, name, None) for name in ("time", "idle"))
        if time is not None and not callable(time):
            self.report(f"time is {describe(time)}; expected a function of a message, or None")
        elif time is not None:
            self.check_arity(time, 1, f"time {name_of(time)}", "message")
        try:
            return time, IDLE_NS if idle is None else not_negative_ns("idle", idle)
        except (TypeError, WallarooParameterError) as error:
            self.report(str(error))
            return time, IDLE_NS

    def max_size(self) -> int:
        """The largest message that the configuration admits, in bytes."""
        size: Any = self._config.max_size
        if size is None:
            return self.max_frame
        problems = [*whole_number("max_size", size, 1)]
        self.report(*problems)
        return self.max_frame if problems else int(size)

    def framed(self, max_size: int | None = None) -> tuple[Framing, Callable[[bytes], Any]]:
        """How the decoder cuts frames, and what it makes of a payload."""
        max_frame = self.max_frame if max_size is None else max_size
        decoder, place = self._config.decoder, self._config.place
        try:
            made = decoder_of(decoder)
            if isinstance(made, Decoder):
                framing = Framing(made.header_length, made.length_fmt, max_frame)
                self.check_arity(made.function, 1, f"decoder {name_of(made)}", "payload")
                return framing, made.function
            problem = not_decorated("decoder", made, "decode")
        except ValueError as error:
            problem = f"decoder {name_of(decoder)}: {error}"
            if missing_instance(decoder, "decode") is None:
                place = place_of(decoder, place)
        self._problems.add(place, f"{self._where}: {problem}")
        return Framing(4, ">I", max_frame), bytes

    def decode(self) -> Callable[[bytes], Any]:
        """What a decoder that need not describe frames makes of a payload."""
        decoder = self._config.decoder
        if (problem := missing_instance(decoder, "decode")) is not None:
            self.report(f"decoder {name_of(decoder)}: {problem}")
            return bytes
        of_python = decoder is bytes or decoder is bytearray  # whose `decode` is that of a value
        function = decoder if of_python else getattr(decoder, "decode", decoder)
        if isinstance(decoder, (Decoder, str, bytes)):
            function = getattr(decoder, "function", None)
        if makes_codecs(decoder) or not callable(function):
            self.report(not_a("decoder", decoder, "expected a function"))
            return bytes
        self.check_arity(function, 1, f"decoder {name_of(decoder)}", "payload")
        made: Callable[[bytes], Any] = function
        return made

    def check_takes(self, takes: str) -> None:
        """Report a decoder of `wallaroo.codecs`, which takes bytes, where it gets what *takes*."""
        decoder = self._config.decoder
        if isinstance(decoder, Decoder) and decoder.place is not None:
            self.report(
                f"{name_of(decoder)} decodes messages of bytes, but the decoder of a "
                f"{type(self._config).__name__} gets {takes}"
            )


@dataclass(frozen=True)
class _Unresolved(Source):
    """What stands for a source that is none, until that is reported."""

    @property
    def where(self) -> str:
        return "nowhere"
