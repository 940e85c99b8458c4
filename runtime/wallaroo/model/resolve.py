"""From the application as its author wrote it to its normal form, or to all its mistakes."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from wallaroo.api.builder import DeclaredApplication, DeclaredPipeline, DeclaredStep
from wallaroo.api.configs import TCPSinkConfig, TCPSourceConfig
from wallaroo.api.functions import Computation, Decoder, Encoder, KeyExtractor, StateComputation
from wallaroo.api.place import Place, place_of
from wallaroo.errors import ApplicationError
from wallaroo.model.application import (
    Application,
    Compute,
    Pipeline,
    Sink,
    Source,
    StateCompute,
    StatePartition,
    Step,
)
from wallaroo.model.classes import (
    computation_of,
    decoder_of,
    encoder_of,
    key_extractor_of,
    state_computation_of,
)
from wallaroo.model.framing import DEFAULT_MAX_FRAME, Framing


def resolve(declared: object, max_frame: int = DEFAULT_MAX_FRAME) -> Application:
    """Give *declared*, what `application_setup` returned, its meaning.

    Args:
        declared: Result of `ApplicationBuilder.build()`.
        max_frame: Largest payload that its sources accept, in bytes.

    Raises:
        ApplicationError: Something in it is wrong; `problems` lists all of it, each with the
            pipeline, the step and the line of user code.
    """
    if not isinstance(declared, DeclaredApplication):
        msg = (
            f"application_setup returned {_described(declared)}, "
            "and an application is due: end it with `return builder.build()`"
        )
        raise ApplicationError(msg)
    resolver = _Resolver(max_frame)
    application = resolver.application(declared)
    if resolver.problems:
        msg = f"the application {declared.name!r} is not well formed:"
        raise ApplicationError(msg, resolver.problems)
    return application


def only_key(_message: Any) -> None:
    """The key of every message of a state that is not partitioned."""


class _Resolver:
    """Walks the declaration once and collects problems on the way."""

    def __init__(self, max_frame: int) -> None:
        self.problems: list[str] = []
        self._max_frame = max_frame
        self._partitions: dict[str, StatePartition] = {}
        self._state_classes: dict[str, type] = {}
        """Class of the entities, or of their builder, by state partition."""
        self._sinks: dict[tuple[int, int], Sink] = {}
        """Sinks by the identity of their configuration and their place in `to_sinks`."""

    def application(self, declared: DeclaredApplication) -> Application:
        """The normal form; sound only where no problem was found."""
        for place in declared.before_pipeline:
            self._problem(place, "a step before the first new_pipeline(…)")
        if not declared.pipelines:
            self._problem(declared.place, "the application has no pipeline; add new_pipeline(…)")
        pipelines: list[Pipeline] = []
        seen: dict[str, Place] = {}
        for declared_pipeline in declared.pipelines:
            name, place = declared_pipeline.name, declared_pipeline.place
            if name in seen:
                self._problem(
                    place, f"two pipelines are named {name!r}: the other is at {seen[name]}"
                )
            seen.setdefault(name, place)
            pipelines.append(self._pipeline(declared_pipeline))
        return Application(declared.name, tuple(pipelines), dict(self._partitions))

    def _pipeline(self, declared: DeclaredPipeline) -> Pipeline:
        if not declared.ended:
            self._problem(
                declared.place,
                f"pipeline {declared.name!r} has no end: finish it with to_sink(…) or done()",
            )
        for place in declared.after_end:
            self._problem(place, f"pipeline {declared.name!r} has a step after its end")
        source = self._source(declared)
        steps = tuple(self._step(declared, step) for step in declared.steps)
        many = len(declared.sinks) > 1
        sinks = tuple(
            self._shared_sink(
                declared, config, number, f"{declared.name} {number}" if many else declared.name
            )
            for number, config in enumerate(declared.sinks, 1)
        )
        return Pipeline(declared.name, source, steps, sinks, declared.place)

    def _source(self, declared: DeclaredPipeline) -> Source:
        where = f"pipeline {declared.name!r}"
        config = declared.source
        if not isinstance(config, TCPSourceConfig):
            self._problem(
                declared.place, f"{where}: {_described(config)} is no source configuration"
            )
            config = TCPSourceConfig("", 0, None)
        framing, decode = Framing(4, ">I", self._max_frame), config.decoder
        try:
            decode = decoder_of(decode)
            if isinstance(decode, Decoder):
                framing = Framing(decode.header_length, decode.length_fmt, self._max_frame)
        except ValueError as error:
            self._problem(place_of(decode), f"{where}: decoder {_named(decode)}: {error}")
            decode = Decoder(bytes, 4, ">I")
        if isinstance(decode, Decoder):
            self._check_arity(decode.function, 1, f"{where}: decoder {_named(decode)}", "payload")
            decode = decode.function
        else:
            self._problem(
                config.place, f"{where}: {_described(decode)} is no decoder; decorate it @decoder"
            )
        return Source(
            declared.name, config.host, config.port, framing, decode, place_of(config.decoder)
        )

    def _shared_sink(self, declared: DeclaredPipeline, config: Any, number: int, name: str) -> Sink:
        """The sink of *config*: pipelines that were merged share it."""
        if (id(config), number) not in self._sinks:
            self._sinks[id(config), number] = self._sink(declared, config, name)
        return self._sinks[id(config), number]

    def _sink(self, declared: DeclaredPipeline, config: Any, name: str) -> Sink:
        where = f"pipeline {declared.name!r}"
        if not isinstance(config, TCPSinkConfig):
            self._problem(declared.place, f"{where}: {_described(config)} is no sink configuration")
            return Sink(name, "", 0, str, declared.place)
        encode = encoder_of(config.encoder)
        if isinstance(encode, Encoder):
            self._check_arity(encode.function, 1, f"{where}: encoder {_named(encode)}", "output")
            encode = encode.function
        else:
            self._problem(
                config.place, f"{where}: {_described(encode)} is no encoder; decorate it @encoder"
            )
        return Sink(name, config.host, config.port, encode, place_of(config.encoder))

    def _step(self, pipeline: DeclaredPipeline, step: DeclaredStep) -> Step:
        where = f"pipeline {pipeline.name!r}"
        stateful = step.state_name is not None
        wanted = StateComputation if stateful else Computation
        made = (state_computation_of if stateful else computation_of)(step.computation)
        if not isinstance(made, wanted):
            decorator = "@state_computation" if stateful else "@computation"
            self._problem(
                step.place,
                f"{where}: {step.kind} takes a function decorated {decorator}, "
                f"and got {_described(made)}",
            )
            return Compute("?", only_key, multi=False, place=step.place)
        place, label = place_of(step.computation), f"{where}, step {made.name!r}"
        if isinstance(made, Computation):
            self._check_arity(made.function, 1, label, "message")
            return Compute(made.name, made.function, made.multi, place)
        self._check_arity(made.function, 2, label, "message, state")
        return StateCompute(
            made.name,
            made.function,
            made.multi,
            tells_save=made.state is None,
            partition=self._partition(step, made, label),
            key=self._key(step, label),
            place=place,
        )

    def _key(self, step: DeclaredStep, label: str) -> Callable[[Any], Any]:
        if step.kind == "to_stateful":
            return only_key
        key = key_extractor_of(step.key)
        if isinstance(key, KeyExtractor):
            self._check_arity(key.function, 1, f"{label}: key function", "message")
            return key.function
        self._problem(
            step.place,
            f"{label}: {_described(step.key)} is no key function; decorate it @partition",
        )
        return only_key

    def _partition(
        self, step: DeclaredStep, made: StateComputation[Any, Any, Any], label: str
    ) -> str:
        name, state = str(step.state_name), made.state or step.state
        keys = self._keys(step, label)
        if callable(getattr(state, "build", None)):  # a state builder of the first generation
            kind, new_entity = state if inspect.isclass(state) else type(state), state.build
        elif inspect.isclass(state):
            kind, new_entity = state, entity_factory(state)
            self._check_arity(state, 0, f"{label}: state class {state.__name__}", "no arguments")
        else:
            self._problem(step.place, f"{label}: the state is {_described(state)}; a class is due")
            kind, new_entity = object, object
        known = self._partitions.get(name)
        if known is None:
            self._partitions[name] = StatePartition(name, new_entity, keys, step.place)
            self._state_classes[name] = kind
            return name
        if self._state_classes[name] is not kind:
            self._problem(
                step.place,
                f"{label}: state {name!r} has entities of {_named(kind)} here "
                f"and of {_named(self._state_classes[name])} at {known.place}",
            )
        if known.keys != keys:
            self._problem(
                step.place, f"{label}: state {name!r} has other keys here than at {known.place}"
            )
        return name

    def _keys(self, step: DeclaredStep, label: str) -> frozenset[Any] | None:
        if step.keys is None:
            return None
        seen: set[Hashable] = set()
        if not isinstance(step.keys, Iterable):
            self._problem(step.place, f"{label}: the keys are {step.keys!r}; a list is due")
            return None
        for key in step.keys:
            try:
                if key in seen:
                    self._problem(step.place, f"{label}: the key {key!r} is listed twice")
                seen.add(key)
            except TypeError:
                self._problem(step.place, f"{label}: the key {key!r} cannot be hashed")
        return frozenset(seen)

    def _check_arity(self, function: Any, count: int, label: str, takes: str) -> None:
        try:
            inspect.signature(function).bind(*[None] * count)
        except TypeError as error:
            self._problem(place_of(function), f"{label} is called with ({takes}): {error}")
        except ValueError:
            return  # a builtin that does not tell its signature

    def _problem(self, place: Place, sentence: str) -> None:
        self.problems.append(f"{place}: {sentence}")


def entity_factory(state: type) -> Callable[[], Any]:
    """What makes entities of the class *state*, each with values of its own.

    A list, set or dictionary that is written in the body of the class would be shared by all
    entities of a process, and not be saved with any: each entity gets a copy.

    Example:
        >>> class Stocks:
        ...     stocks = {}
        >>> new = entity_factory(Stocks)
        >>> new().stocks is new().stocks
        False
    """
    shared = {
        name: value
        for cls in reversed(state.__mro__[:-1])
        for name, value in vars(cls).items()
        if isinstance(value, (list, set, dict, bytearray)) and not name.startswith("__")
    }
    if not shared:
        return state

    @functools.wraps(state, updated=())
    def make() -> Any:
        entity = state()
        for name, value in shared.items():
            if getattr(entity, name) is value:
                setattr(entity, name, copy.deepcopy(value))
        return entity

    return make


def _named(thing: Any) -> str:
    return getattr(thing, "__name__", None) or repr(thing)


def _described(thing: Any) -> str:
    if thing is None or isinstance(thing, (str, int, float, Sequence)):
        return repr(thing)
    if inspect.isclass(thing):
        return f"the class {thing.__name__}"
    name = getattr(thing, "__name__", None)
    return f"the function {name}" if name else f"an object of class {type(thing).__name__}"
