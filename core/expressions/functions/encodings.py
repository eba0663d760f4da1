"""Digits and bytes as text, and hashes: hexadecimal, binary, base64, character codes, checksums.

A text stands for its bytes in UTF-8.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace.core.expressions.function import Overload, SqlFunction, function, overload
from headrace.core.expressions.functions.arguments import build_mapping
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import NO_SPARK_FORM, PolarsForm

if TYPE_CHECKING:
    import polars as pl

_BITS_64 = (1 << 64) - 1
_FACTORIALS = {number: math.factorial(number) for number in range(21)}
HashName: TypeAlias = Literal["md5", "sha1", "sha2_224", "sha2_256", "sha2_384", "sha2_512"]


def _to_bytes(text: pl.Expr) -> pl.Expr:
    import polars as pl

    return text.cast(pl.Binary)


def _of_bytes(name: str, result: str, form: PolarsForm) -> tuple[Overload, Overload]:
    """Return the overloads of a function of bytes, which also takes a text."""
    return (
        overload(
            f"{name}(text: exact string) -> {result}",
            lambda text: form(_to_bytes(text)),
            nulls="strict",
        ),
        overload(f"{name}(bytes: binary) -> {result}", form, nulls="strict"),
    )


def _encode_hex(value: pl.Expr) -> pl.Expr:
    return value.bin.encode("hex").str.to_uppercase()


def _decode_hex(text: pl.Expr) -> pl.Expr:
    import polars as pl

    even = text.str.len_bytes() % 2 == 0
    padded = pl.when(even).then(text).otherwise(pl.concat_str(pl.lit("0"), text))
    return padded.str.decode("hex", strict=False)


def _build_decode_hex(bound: BoundArguments) -> PolarsForm:
    from headrace.core.expressions.batch_forms import evaluate_once

    return evaluate_once(_decode_hex, bound.result)


def _encode_base64(value: pl.Expr) -> pl.Expr:
    """Encode in lines of 76 characters, as Java's MIME encoder does."""
    lines = value.bin.encode("base64").str.replace_all("(.{76})", "${1}\r\n")
    return lines.str.strip_suffix("\r\n")


_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]")


def _decode_base64(text: str) -> bytes | None:
    """Decode as Java's MIME decoder does: other characters are skipped; None where it fails."""
    import base64

    head, end, rest = text.partition("=")
    digits = _NOT_BASE64.sub("", head)
    count = len(digits) % 4
    early = count == 0 or (count == 2 and not rest.startswith("="))
    if count == 1 or (end and (early or _NOT_BASE64.sub("", rest))):
        return None
    return base64.b64decode(digits + "=" * (-len(digits) % 4))


def _build_hash(name: HashName) -> PolarsForm:
    def form(value: pl.Expr) -> pl.Expr:
        from polars_hash import CryptographicHashingNameSpace, NonCryptographicHashingNameSpace

        space = (
            CryptographicHashingNameSpace
            if name.startswith("sha2")
            else NonCryptographicHashingNameSpace
        )
        hashed: pl.Expr = getattr(space(value), name)()
        return hashed

    return form


def _build_sha2(bound: BoundArguments) -> PolarsForm:
    """Return the form of the hash of that many bits; 0 is 256, and other numbers are NULL."""
    import polars as pl

    names: dict[object, HashName] = {224: "sha2_224", 384: "sha2_384", 512: "sha2_512"}
    names |= {0: "sha2_256", 256: "sha2_256"}
    name = names.get(bound.constants[1])
    if name is None:
        return lambda value, _: pl.lit(None, dtype=pl.String)
    form = _build_hash(name)
    return lambda value, _: form(_to_bytes(value))


def _define_hash(
    name: str, doc: str, algorithm: HashName, value: str, aliases: tuple[str, ...] = ()
) -> SqlFunction:
    return function(
        *(name, "encodings", doc),
        *_of_bytes(name, "string", _build_hash(algorithm)),
        example=(f"{name}('Spark')", value),
        aliases=aliases,
    )


def _map_bytes(compute: Callable[[bytes], object]) -> Callable[[BoundArguments], PolarsForm]:
    def build(bound: BoundArguments) -> PolarsForm:
        from headrace.core.expressions.batch_forms import map_values

        form = map_values(compute, bound.result)
        return lambda value: form(_to_bytes(value))

    return build


def _form_factorial(value: pl.Expr) -> pl.Expr:
    import polars as pl

    return value.replace_strict(_FACTORIALS, default=None, return_dtype=pl.Int64)


_DIGITS: tuple[SqlFunction, ...] = (
    function(
        *("bin", "encodings", "The binary digits of a whole number; of a negative one all 64."),
        overload(
            "bin(value: bigint) -> string",
            build=build_mapping(lambda value: f"{value & _BITS_64:b}"),
            nulls="strict",
        ),
        example=("bin(13)", "1101"),
    ),
    function(
        *("hex", "encodings", "The hexadecimal digits of a whole number, or of bytes or a text."),
        overload(
            "hex(value: bigint) -> string",
            build=build_mapping(lambda value: f"{value & _BITS_64:X}"),
            nulls="strict",
        ),
        *_of_bytes("hex", "string", _encode_hex),
        example=("hex(255)", "FF"),
        more=(("hex('Spark SQL')", "537061726B2053514C"),),
    ),
    function(
        *("unhex", "encodings", "The bytes of hexadecimal digits; NULL if there are others."),
        overload("unhex(digits: string) -> binary", build=_build_decode_hex),
        example=("unhex('537061726B')", "Spark"),
    ),
    function(
        *("factorial", "numbers", "The factorial of a number from 0 to 20; otherwise NULL."),
        overload("factorial(value: int) -> bigint", _form_factorial),
        example=("factorial(5)", "120"),
    ),
)

_CODES: tuple[SqlFunction, ...] = (
    function(
        *("ascii", "encodings", "The code of the first character of a text; 0 if it is empty."),
        overload(
            "ascii(text: string) -> int",
            build=build_mapping(lambda text: ord(text[0]) if text else 0),
            nulls="strict",
        ),
        example=("ascii('222')", "50"),
    ),
    function(
        *(
            "char",
            "encodings",
            "The character of a code from 0 to 255, higher ones modulo 256; empty below 0.",
        ),
        overload(
            "char(code: bigint) -> string",
            build=build_mapping(lambda code: chr(code & 255) if code >= 0 else ""),
            nulls="strict",
        ),
        example=("char(65)", "A"),
        aliases=("chr",),
    ),
    function(
        *("base64", "encodings", "Bytes, or a text, in base64, in lines of 76 characters."),
        *_of_bytes("base64", "string", _encode_base64),
        example=("base64('Spark SQL')", "U3BhcmsgU1FM"),
    ),
    function(
        *(
            "unbase64",
            "encodings",
            "The bytes of a text in base64; other characters are skipped, and NULL is the value of"
            " a text that ends too early.",
        ),
        overload(
            "unbase64(text: string) -> binary",
            build=build_mapping(_decode_base64),
            spark=NO_SPARK_FORM,
        ),
        example=("unbase64('U3BhcmsgU1FM')", "Spark SQL"),
    ),
)

_HASHES: tuple[SqlFunction, ...] = (
    _define_hash(
        "md5",
        "The MD5 hash of bytes or a text, in hexadecimal digits.",
        "md5",
        "8cde774d6f7333752ed72cacddb05126",
    ),
    _define_hash(
        "sha1",
        "The SHA-1 hash of bytes or a text, in hexadecimal digits.",
        "sha1",
        "85f5955f4b27a9a4c2aab6ffe5d7189fc298b92c",
        ("sha",),
    ),
    function(
        *(
            "sha2",
            "encodings",
            "The SHA-2 hash of bytes or a text, in hexadecimal digits; the bits are 224, 256, 384,"
            " 512, or 0 for 256, and NULL is the value of others.",
        ),
        overload("sha2(text: exact string, bits: constant int) -> string", build=_build_sha2),
        overload("sha2(bytes: binary, bits: constant int) -> string", build=_build_sha2),
        example=(
            "sha2('Spark', 224)",
            "dbeab94971678d36af2195851c0f7485775a2a7c60073d62fc04549c",
        ),
    ),
    function(
        *("crc32", "encodings", "The checksum CRC-32 of bytes or a text."),
        overload(
            "crc32(text: exact string) -> bigint", build=_map_bytes(zlib.crc32), nulls="strict"
        ),
        overload("crc32(bytes: binary) -> bigint", build=_map_bytes(zlib.crc32), nulls="strict"),
        example=("crc32('Spark')", "1557323817"),
    ),
)

ENCODINGS: tuple[SqlFunction, ...] = (*_DIGITS, *_CODES, *_HASHES)
"""The functions of digits, bytes and hashes."""
