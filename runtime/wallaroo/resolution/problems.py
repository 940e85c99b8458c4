"""Collects the problems of an application, so that all of them are reported at once."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from wallaroo.api import functions, gathered_functions, joins, state_functions
from wallaroo.api.places import Place, place_of
from wallaroo.resolution.returned_values import returned_values

_DECORATORS: dict[type, str] = {
    functions.Decoder: "decoder",
    functions.Computation: "computation",
    functions.MultiComputation: "computation_multi",
    gathered_functions.AsyncComputation: "computation_async",
    gathered_functions.BatchComputation: "computation_batch",
    state_functions.StateComputation: "state_computation",
    state_functions.MultiStateComputation: "state_computation_multi",
    state_functions.TimedStateComputation: "state_computation",
    state_functions.TimedMultiStateComputation: "state_computation_multi",
    functions.KeyExtractor: "key_extractor",
    functions.Encoder: "encoder",
    joins.TableJoin: "table_join",
    joins.AsOfJoin: "asof_join",
    joins.IntervalJoin: "interval_join",
}
_MODULES = tuple(
    module.__name__ for module in (functions, gathered_functions, joins, state_functions)
)
"""Modules of the decorators."""


_LONGEST_NAME = 200
"""Bytes of a name in UTF-8: directories bear those of applications and pipelines."""
_WRITE_RETURN = "write return"
_WRITE_DEF = "write def, and await what it needs in a step with @computation_async"


class Problems:
    """Collects sentences, each with the line of user code that it refers to.

    Example:
        >>> problems = Problems()
        >>> problems.add(Place("application.py", 7), "the application has no pipeline")
        >>> problems.messages
        ['application.py:7: the application has no pipeline']
    """

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.hints: list[str] = []
        """What is allowed, but probably not meant."""

    def add(self, place: Place, sentence: str) -> None:
        """Record *sentence* as a problem at *place*."""
        self.messages.append(f"{place}: {sentence}")

    def add_hint(self, place: Place, sentence: str) -> None:
        """Record *sentence* as a hint at *place*, once."""
        hint = f"{place}: {sentence}"
        if hint not in self.hints:
            self.hints.append(hint)

    def check_name(self, of: str, name: object, place: Place) -> None:
        """Record a problem if *name* cannot be the name of an application or of a part of it."""
        shown = None
        if not isinstance(name, str) or not name.strip():
            shown = describe(name)
        elif (length := len(name.encode("utf-8", "surrogatepass"))) > _LONGEST_NAME:
            shown = f"{length:,} bytes long"
        if shown is not None:
            due = f"expected a str that is not blank, of up to {_LONGEST_NAME} bytes"
            self.add(place, f"the name of {of} is {shown}; {due}")

    def check_arity(
        self,
        function: Any,
        count: int,
        label: str,
        takes: str,
        *,
        if_async: str | None = _WRITE_DEF,
        if_generator: str | None = _WRITE_RETURN,
        returns: bool = False,
    ) -> None:
        """Record a problem if *function* cannot be called with *count* positional arguments.

        It is a problem as well if it is declared with async def, unless *if_async* is None. A hint
        says if it is a generator function, unless *if_generator* is None, and, with *returns*, if
        it has no return.

        Args:
            function: Function or class to check.
            count: Number of arguments.
            label: How the message refers to the function.
            takes: How the message refers to the arguments.
            if_async: What to do if it is declared with async def; None if its result is awaited.
            if_generator: What to do if it contains yield; None if its result is iterated over.
            returns: Whether its result is needed.
        """
        if if_async is not None:
            self.check_not_async(function, label, if_async)
        if if_generator is not None and inspect.isgeneratorfunction(function):
            self.add_hint(place_of(function), f"{label}: it contains yield; {if_generator}")
        if returns and returned_values(function) == []:
            self.add_hint(place_of(function), f"{label}: it returns nothing; {_WRITE_RETURN}")
        try:
            inspect.signature(function).bind(*[None] * count)
        except TypeError as error:
            self.add(place_of(function), f"{label} is called with ({takes}): {error}")
        except ValueError:
            return  # a builtin without a signature

    def check_not_async(self, function: Any, label: str, remedy: str = _WRITE_DEF) -> None:
        """Record a problem if *function*, whose result nothing awaits, is declared with async def.

        Args:
            function: Function to check.
            label: How the message refers to it.
            remedy: What to do.
        """
        # a wrapper of one may await it
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            what = "it is declared with async def, and nothing awaits its result"
            self.add(place_of(function), f"{label}: {what}; {remedy}")


def missing_instance(thing: Any, *methods: str) -> str | None:
    """Return a message if *thing* is a class whose *methods* need an instance; None otherwise.

    Example:
        >>> class Upper:
        ...     def encode(self, text):
        ...         return text.upper()
        >>> missing_instance(Upper, "encode")
        'got the class Upper; expected an instance: Upper()'
        >>> missing_instance(Upper(), "encode")
    """
    if not inspect.isclass(thing):
        return None
    if not any(inspect.isfunction(inspect.getattr_static(thing, m, None)) for m in methods):
        return None
    return f"got the class {thing.__name__}; expected an instance: {thing.__name__}()"


def name_of(thing: Any) -> str:
    """Return the name of a function or class, or the repr of anything else."""
    return getattr(thing, "__name__", None) or repr(thing)


def describe(thing: Any) -> str:
    """Return a noun phrase for *thing*, to use in a message.

    Example:
        >>> describe(7), describe(int), describe(len), describe(list[int])
        ('7', 'the class int', 'the function len', 'list[int], a generic alias')
    """
    if thing is None or isinstance(thing, (str, int, float, Sequence)):
        return repr(thing)
    if inspect.isclass(thing):
        return f"the class {thing.__name__}"
    name = getattr(thing, "__name__", None)
    if (aliased := aliased_class(thing)) is not None:
        return f"{repr(thing).removeprefix(f'{aliased.__module__}.')}, a generic alias"
    if type(thing) in _DECORATORS:
        return f"the @{_DECORATORS[type(thing)]} {name or type(thing.function).__name__}"
    if inspect.isfunction(thing) and thing.__module__ in _MODULES:
        decorator = thing.__qualname__.partition(".")[0]
        if decorator != name:  # an inner function, because the decorator was not called
            return f"the result of @{decorator} without its arguments; write {_with_name(thing)}"
    call = f" without a call (write {name}(…))" if makes_codecs(thing) else ""
    return f"the function {name}{call}" if name else f"an object of class {type(thing).__name__}"


def aliased_class(thing: Any) -> type | None:
    """Return the class of which *thing* is a generic alias; None if it is something else."""
    origin = getattr(thing, "__origin__", None)
    return origin if inspect.isclass(origin) and origin is not types.UnionType else None


def makes_codecs(thing: Any) -> bool:
    """Whether *thing* is a function that makes a decoder or an encoder, and not one itself.

    Example:
        >>> from wallaroo.codecs import json_decoder
        >>> makes_codecs(json_decoder), makes_codecs(json_decoder())
        (True, False)
    """
    return inspect.isfunction(thing) and thing.__module__.startswith("wallaroo.codecs.")


def is_plain(thing: Any) -> bool:
    """Whether *thing* is callable, and not a class, a decorator, decorated, or a codec factory.

    Example:
        >>> is_plain(str.encode), is_plain(functions.encoder), is_plain(str), is_plain(7)
        (True, False, False, False)
    """
    of_runtime = getattr(thing, "__module__", None) in _MODULES or makes_codecs(thing)
    is_other = inspect.isclass(thing) or isinstance(thing, functions.Decorated)
    return callable(thing) and not of_runtime and not is_other


def not_a(kind: str, thing: Any, expected: str) -> str:
    """Return a message that *thing* is not of the *kind*, and what is *expected*.

    Example:
        >>> from wallaroo.codecs import json_decoder
        >>> not_a("decoder", 7, "expected a function")
        '7 is not a decoder; expected a function'
        >>> not_a("decoder", json_decoder, "expected a function")
        'json_decoder makes a decoder and is not one; call it: json_decoder(…)'
    """
    if makes_codecs(thing):
        name = thing.__name__
        made = "a decoder" if name.endswith("decoder") else "an encoder"
        return f"{name} makes {made} and is not one; call it: {name}(…)"
    return f"{describe(thing)} is not {'an' if kind[0] in 'aeiou' else 'a'} {kind}; {expected}"


def not_decorated(kind: str, thing: Any, method: str) -> str:
    """Return a message that *thing* has neither the decorator @*kind* nor, as an object, *method*.

    Example:
        >>> not_decorated("decoder", len, "decode")
        'the function len is not a decoder; decorate it with @decoder'
        >>> not_decorated("decoder", object(), "decode")
        'an object of class object is not a decoder; it has no method decode'
    """
    due = f"decorate it with @{kind}" if callable(thing) else f"it has no method {method}"
    return not_a(kind, thing, due)


def _with_name(thing: Any) -> str:
    """The decorator whose inner function *thing* is, with a name for the function it was given."""
    decorator = thing.__qualname__.partition(".")[0]
    given = inspect.getclosurevars(thing).nonlocals.get("name")
    name = getattr(given, "__name__", None)
    return f"@{decorator}(name={name!r})" if name else f"@{decorator}(…)"


def url_path(path: Any) -> Iterator[str]:
    """What is wrong with the *path* at which an endpoint answers.

    Example:
        >>> list(url_path("/prices?all"))
        ["path is '/prices?all'; expected a path alone, without ? and #"]
    """
    if not (isinstance(path, str) and path.startswith("/")):
        yield f"path is {path!r}; expected a text that begins with /"
    elif "?" in path or "#" in path:
        yield f"path is {path!r}; expected a path alone, without ? and #"


def origins_of_pages(origins: Any) -> Iterator[str]:
    """What is wrong with the *origins* of pages that may use an endpoint.

    Example:
        >>> list(origins_of_pages(["https://shop.example.org", "*"]))
        []
        >>> list(origins_of_pages("*"))
        ["origins is the text '*'; expected a list: ['*']"]
    """
    if isinstance(origins, str):
        yield f"origins is the text {origins!r}; expected a list: [{origins!r}]"
        return
    for origin in origins:
        if not _is_origin(origin):
            yield (
                f"origins has {origin!r}; expected '*' or an origin, a scheme and a host "
                "without a path, such as 'https://shop.example.org'"
            )


def _is_origin(origin: object) -> bool:
    if origin == "*":
        return True
    if not isinstance(origin, str):
        return False
    parts = urlsplit(origin)
    return bool(parts.scheme and parts.netloc) and origin == f"{parts.scheme}://{parts.netloc}"


def whole_number(name: str, value: object, least: int) -> Iterator[str]:
    """What is wrong with the setting *name* if *value* is not a whole number of at least *least*.

    Example:
        >>> list(whole_number("viewers", 0, 1))
        ['viewers is 0; expected a whole number of at least 1']
        >>> list(whole_number("viewers", 5, 1))
        []
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        yield f"{name} is {value!r}; expected a whole number of at least {least}"


def one_of(name: str, value: object, *choices: str) -> Iterator[str]:
    """What is wrong with the setting *name* if *value* is not one of *choices*.

    Example:
        >>> list(one_of("on_lost", "wait", "stop", "skip"))
        ["on_lost is 'wait'; expected 'stop' or 'skip'"]
    """
    if value not in choices:
        yield f"{name} is {value!r}; expected {' or '.join(map(repr, choices))}"


def described_with(config: Any, end: str) -> str:
    """What to do if *config* is the name of a connector that does not exist."""
    if not isinstance(config, str):
        return ""
    return f"; to use a connector by its name, first call {end}_connector({config!r}, …)"
