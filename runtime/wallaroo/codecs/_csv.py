"""CSV: each message is one row."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import enum
import io
from collections.abc import Callable, Sequence
from typing import Any, overload

from wallaroo.api.functions import Decoder, Encoder, LengthFormat
from wallaroo.codecs._construction import (
    HEADER_LENGTH,
    LENGTH_FMT,
    TEXT,
    Result,
    TextFraming,
    made_decoder,
    made_encoder,
    name_of_type,
)
from wallaroo.codecs._types import converting, is_model, to_plain
from wallaroo.errors import WallarooParameterError
from wallaroo.system.packages import required
from wallaroo.user_code.callers import one_call

_END = "\r\n"
"""Ends rows while they are written: cells that contain a part of it are quoted."""
_MARK = "\ufeff"
"""Byte order mark, which some editors begin files with: it is not a part of the first cell."""
_CONVERTED = (enum.Enum, datetime.date, datetime.time, datetime.timedelta, bytes, bytearray)
"""Classes of values that are not written as their texts."""
Columns = Sequence[str]
"""Names of columns, in their order."""


class NoRow(ValueError):
    """A message is not one row with the columns of the decoder."""


@overload
def csv_decoder(
    type: type[Result],
    *,
    delimiter: str = ",",
    header: bool = False,
    header_length: int = HEADER_LENGTH,
    length_fmt: LengthFormat = LENGTH_FMT,
) -> Decoder[Result | None]: ...


@overload
def csv_decoder(
    type: None = None,
    *,
    delimiter: str = ",",
    header_length: int = HEADER_LENGTH,
    length_fmt: LengthFormat = LENGTH_FMT,
) -> Decoder[list[str]]: ...


@overload
def csv_decoder(
    type: Columns,
    *,
    delimiter: str = ",",
    header: bool = False,
    header_length: int = HEADER_LENGTH,
    length_fmt: LengthFormat = LENGTH_FMT,
) -> Decoder[dict[str, str] | None]: ...


def csv_decoder(
    type: Any = None,  # noqa: A002  (as in the other codecs)
    *,
    delimiter: str = ",",
    header: bool = False,
    header_length: int = HEADER_LENGTH,
    length_fmt: LengthFormat = LENGTH_FMT,
) -> Decoder[Any]:
    """Make a decoder of rows: for sources whose messages are lines, or records of one row.

    An empty cell is an empty string for a field of type `str`. For any other type, including
    `str | None`, it is the default of the field, or None if the field has no default.

    Args:
        type: A dataclass, TypedDict, NamedTuple, `msgspec.Struct` or pydantic model whose fields
            are the columns, in their order; or the names of the columns, for dictionaries of texts;
            or None, for lists of texts.
        delimiter: What separates cells.
        header: Whether to drop rows that consist of the names of the columns.
        header_length: Length of the header before each payload, in bytes, in sources of frames.
        length_fmt: Layout of that header, as for `wallaroo.decoder`.

    Raises:
        TypeError: The type has no fields.
        WallarooParameterError: The delimiter is not one character, or names of columns are repeated
            or missing.
        ModuleNotFoundError: msgspec is not installed, for a type.

    Example:
        >>> from typing import NamedTuple
        >>> class Trade(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> csv_decoder(Trade)(b"ABC,1.5")
        Trade(symbol='ABC', price=1.5)
        >>> csv_decoder(["symbol", "price"])(b'"A, B",1.5')
        {'symbol': 'A, B', 'price': '1.5'}
    """
    rows = _reading(_checked_delimiter(delimiter, "csv_decoder"))
    if type is None:
        return made_decoder("csv_decoder()", rows, header_length, length_fmt)
    if isinstance(type, (list, tuple)) and all(isinstance(name, str) for name in type):
        if len(set(type)) < len(type) or not type:
            msg = f"csv_decoder: columns are {list(type)}; expected a different name for each"
            raise WallarooParameterError(msg)
        columns = tuple(_Column(name, required=True, text=True) for name in type)
        decode = _with_columns(rows, columns, dict, header=header)
        return made_decoder(f"csv_decoder({list(type)})", decode, header_length, length_fmt)
    columns, convert = _columns_of(type)
    decode = _with_columns(rows, columns, convert, header=header)
    return made_decoder(f"csv_decoder({name_of_type(type)})", decode, header_length, length_fmt)


def csv_encoder(
    columns: Columns | None = None, *, delimiter: str = ",", framing: TextFraming = "none"
) -> Encoder[Any, bytes]:
    """Make an encoder to rows, of lists, tuples, dictionaries, dataclasses and other objects.

    None becomes an empty cell; an enumeration is written by its value, times and durations in ISO
    8601, and bytes in Base64, in outputs of any kind.

    Args:
        columns: Names of the values to write, in their order; None for all, in the order of the
            output.
        delimiter: What separates cells.
        framing: `"lines"` to end each row with a line feed, `"frames"` to precede it with its
            length in four bytes. Sinks that separate outputs themselves need `"none"`.

    Raises:
        WallarooParameterError: The delimiter is not one character, or the framing another one.
        ModuleNotFoundError: msgspec is not installed, when such a value or an object is written.

    Example:
        >>> csv_encoder()(["A, B", 1.5, None])
        b'"A, B",1.5,'
        >>> csv_encoder(["symbol", "price"])({"price": 1.5, "symbol": "ABC"})
        b'ABC,1.5'
    """
    if isinstance(columns, str):
        msg = f"csv_encoder: columns is {columns!r}; expected a list of names"
        raise WallarooParameterError(msg)
    encode = _writing(
        None if columns is None else tuple(columns), _checked_delimiter(delimiter, "csv_encoder")
    )
    return made_encoder("csv_encoder()", encode, framing, TEXT)


@dataclasses.dataclass(frozen=True)
class _Column:
    name: str
    required: bool
    text: bool
    """Whether an empty cell is an empty text."""


def _checked_delimiter(delimiter: Any, codec: str) -> str:
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '\r\n"\0':
        msg = f"{codec}: delimiter is {delimiter!r}; expected one character, such as ';'"
        raise WallarooParameterError(msg)
    return delimiter


def _columns_of(kind: Any) -> tuple[tuple[_Column, ...], Callable[[dict[str, Any]], Any]]:
    """The columns of a type, and how to make an object of it."""
    if is_model(kind):
        convert = converting(kind, "csv_decoder", strict=False)
        assert convert is not None
        columns = tuple(
            _Column(field.alias or name, field.is_required(), _takes_text(field.annotation))
            for name, field in kind.model_fields.items()
        )
        return columns, convert
    inspect = required("msgspec", "csv_decoder").inspect
    convert = converting(kind, "csv_decoder", strict=False)
    info = inspect.type_info(kind)
    if convert is None or not hasattr(info, "fields"):
        msg = (
            f"csv_decoder: {kind!r} has no fields; expected a dataclass, TypedDict, NamedTuple, "
            "msgspec.Struct or pydantic model, or a list of names"
        )
        raise TypeError(msg)
    columns = tuple(
        _Column(field.encode_name, field.required, _has_text(field.type, inspect))
        for field in info.fields
    )
    if isinstance(info, inspect.NamedTupleType):
        return columns, _to_named_tuple(kind, columns, convert)
    return columns, convert


def _has_text(info: Any, inspect: Any) -> bool:
    kinds = info.types if isinstance(info, inspect.UnionType) else (info,)
    texts = any(isinstance(kind, (inspect.StrType, inspect.AnyType)) for kind in kinds)
    return texts and not any(isinstance(kind, inspect.NoneType) for kind in kinds)


def _takes_text(annotation: Any) -> bool:
    kinds = getattr(annotation, "__args__", ())
    return annotation in {str, Any} or (str in kinds and type(None) not in kinds)


@one_call
def _to_named_tuple(
    kind: Any, columns: tuple[_Column, ...], convert: Callable[[Any], Any]
) -> Callable[[dict[str, Any]], Any]:
    defaults = getattr(kind, "_field_defaults", {})
    names = [column.name for column in columns]

    def call(values: dict[str, Any]) -> Any:
        return convert([values.get(name, defaults.get(name)) for name in names])

    return call


@one_call
def _reading(delimiter: str) -> Callable[[bytes], list[str]]:
    def row_of(payload: bytes) -> list[str]:
        text = payload.decode().removeprefix(_MARK)
        try:
            rows = list(csv.reader([text], delimiter=delimiter, strict=True))
        except csv.Error as error:
            msg = f"{text[:80]!r} is not a row of CSV: {error}"
            raise NoRow(msg) from None
        return rows[0] if rows else []

    return row_of


@one_call
def _with_columns(
    rows: Callable[[bytes], list[str]],
    columns: tuple[_Column, ...],
    convert: Callable[[dict[str, Any]], Any],
    *,
    header: bool,
) -> Callable[[bytes], Any]:
    names = [column.name for column in columns]
    expected = ", ".join(names)

    def decode(payload: bytes) -> Any:
        cells = rows(payload)
        if header and cells == names:
            return None
        if len(cells) != len(names):
            msg = f"the row has {len(cells)} cells; expected {len(names)}: {expected}"
            raise NoRow(msg)
        values: dict[str, Any] = {}
        for column, cell in zip(columns, cells, strict=True):
            if cell or column.text:
                values[column.name] = cell
            elif column.required:
                values[column.name] = None
        return convert(values)

    return decode


@one_call
def _writing(columns: tuple[str, ...] | None, delimiter: str) -> Callable[[Any], bytes]:
    def encode(output: Any) -> bytes:
        stream = io.StringIO()
        cells = _cells(output, columns)
        # of a cell that begins with a mark, a quote tells that it does
        first = str(cells[0]) if cells else ""
        csv.writer(
            stream,
            delimiter=delimiter,
            lineterminator=_END,
            quoting=csv.QUOTE_ALL if first.startswith(_MARK) else csv.QUOTE_MINIMAL,
        ).writerow(cells)
        return stream.getvalue().removesuffix(_END).encode()

    return encode


@one_call
def _cells(output: Any, columns: tuple[str, ...] | None) -> list[Any]:
    """The values of *output*, which must be plain ones."""
    if isinstance(output, (list, tuple)) and not hasattr(output, "_asdict"):
        if columns is not None and len(output) != len(columns):
            msg = f"the output has {len(output)} values; expected {len(columns)}: {columns}"
            raise ValueError(msg)
        cells = list(output)
    else:
        values = _by_name(output)
        missing = [name for name in columns or () if name not in values]
        if missing:
            msg = f"the output has no {missing[0]!r}; it has {', '.join(map(str, values))}"
            raise ValueError(msg)
        cells = [values[name] for name in columns or values]
    cells = [_plain(cell) if isinstance(cell, _CONVERTED) else cell for cell in cells]
    for number, cell in enumerate(cells):
        if isinstance(cell, (list, tuple, dict, set)):
            name = columns[number] if columns else f"number {number + 1}"
            msg = (
                f"the value {name} is a {type(cell).__name__}, which cannot be a cell: {cell!r:.80}"
            )
            raise TypeError(msg)
    return cells


def _plain(cell: Any) -> Any:
    """A value as it is written in other records: an enumeration by its value, times in ISO 8601."""
    return required("msgspec", "csv_encoder").to_builtins(cell, enc_hook=to_plain)


def _by_name(output: Any) -> dict[str, Any]:
    if isinstance(output, dict):
        return output
    if hasattr(output, "_asdict"):
        output = output._asdict()  # of itself, msgspec makes a list of a named tuple
    plain = required("msgspec", "csv_encoder").to_builtins(output, enc_hook=to_plain)
    if not isinstance(plain, dict):
        msg = (
            f"an object of class {type(output).__name__} is not a row; expected a list or a record"
        )
        raise TypeError(msg)
    if dataclasses.is_dataclass(output):  # a decoded one has the order of its message
        names = [field.name for field in dataclasses.fields(output) if field.name in plain]
        return {name: plain[name] for name in names}
    return plain
