"""MessagePack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from wallaroo.api.functions import Decoder, Encoder, LengthFormat
from wallaroo.codecs._construction import (
    BINARY,
    HEADER_LENGTH,
    LENGTH_FMT,
    BinaryFraming,
    Result,
    made_decoder,
    made_encoder,
    name_of_type,
)
from wallaroo.codecs._defaults import with_defaults
from wallaroo.codecs._types import check_type, converting, from_plain, is_model, to_plain
from wallaroo.system.packages import required
from wallaroo.user_code.callers import one_call


@overload
def msgpack_decoder(
    type: type[Result],
    *,
    strict: bool = True,
    header_length: int = HEADER_LENGTH,
    length_fmt: LengthFormat = LENGTH_FMT,
    repeatable: bool = False,
) -> Decoder[Result]: ...


@overload
def msgpack_decoder(
    type: Any = Any,
    *,
    strict: bool = True,
    header_length: int = HEADER_LENGTH,
    length_fmt: LengthFormat = LENGTH_FMT,
    repeatable: bool = False,
) -> Decoder[Any]: ...


def msgpack_decoder(
    type: Any = Any,  # noqa: A002  (as in msgspec)
    *,
    strict: bool = True,
    header_length: int = HEADER_LENGTH,
    length_fmt: LengthFormat = LENGTH_FMT,
    repeatable: bool = False,
) -> Decoder[Any]:
    r"""Make a decoder of MessagePack. A message that does not fit the type becomes a dead letter.

    Args:
        type: Type of the messages, as for `json_decoder`.
        strict: Whether a text is no number, as for `json_decoder`.
        header_length: Length of the header before each payload, in bytes, in sources of frames.
        length_fmt: Layout of that header, as for `wallaroo.decoder`.
        repeatable: Promises what it does for `wallaroo.decoder`: code of the type, such as
            `__post_init__` or a validator, keeps to it, and key extractors do not change messages.

    Raises:
        TypeError: The type cannot be decoded.
        ModuleNotFoundError: msgspec is not installed.

    Example:
        >>> msgpack_decoder()(b"\x82\xa1a\x01\xa1b\x93\x01\x02\x03")
        {'a': 1, 'b': [1, 2, 3]}
    """
    msgspec = required("msgspec", "msgpack_decoder")
    if is_model(type):
        plain = msgspec.msgpack.Decoder().decode
        convert = converting(type, "msgpack_decoder", strict=strict)
        assert convert is not None

        @one_call
        def decode_model(payload: bytes) -> Any:
            return convert(plain(payload))

        decode: Callable[[Any], Any] = decode_model
    else:
        check_type(type, "msgpack_decoder")
        decode = msgspec.msgpack.Decoder(type, strict=strict, dec_hook=from_plain).decode
        decode = with_defaults(type, decode, "msgpack_decoder")
    name = f"msgpack_decoder({name_of_type(type)})"
    return made_decoder(name, decode, header_length, length_fmt, repeatable=repeatable)


def msgpack_encoder(*, framing: BinaryFraming = "none") -> Encoder[Any, bytes]:
    r"""Make an encoder to MessagePack, of everything that `json_encoder` accepts.

    Args:
        framing: `"frames"` to precede each output with its length in four bytes, as receivers on
            TCP need it. Sinks that separate outputs themselves need `"none"`.

    Raises:
        WallarooParameterError: The framing is another one.
        ModuleNotFoundError: msgspec is not installed.

    Example:
        >>> msgpack_encoder(framing="frames")({"a": 1})
        b'\x00\x00\x00\x04\x81\xa1a\x01'
    """
    msgspec = required("msgspec", "msgpack_encoder")
    encode = msgspec.msgpack.Encoder(enc_hook=to_plain).encode
    return made_encoder("msgpack_encoder()", encode, framing, BINARY)
