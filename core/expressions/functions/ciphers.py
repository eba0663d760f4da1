"""Encryption and authentication of bytes: `aes_encrypt`, `aes_decrypt`, `hmac`.

Each value is a call of the libraries `cryptography` or `hmac`. What fails is NULL: a key of another
length, a mode that does not exist, bytes that are damaged or encrypted with another key.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace.core.expressions.casts import build_cast
from headrace.core.expressions.function import (
    Overload,
    SqlFunction,
    TypedCall,
    choose_signature,
    function,
    overload,
)
from headrace.core.expressions.functions.arguments import build_mapping, literal_text
from headrace.core.expressions.typed import NO_SPARK_FORM, ExpressionError, TypedExpression
from headrace.core.types.data_types import BINARY, STRING

if TYPE_CHECKING:
    from collections.abc import Callable

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

Mode: TypeAlias = Literal["GCM", "CBC", "ECB"]

_VECTOR_BYTES: dict[str, int] = {"GCM": 12, "CBC": 16, "ECB": 0}
_PADDINGS = {"GCM": ("DEFAULT", "NONE"), "CBC": ("DEFAULT", "PKCS"), "ECB": ("DEFAULT", "PKCS")}
_KEY_BYTES = (16, 24, 32)
_TAG_BYTES = 16
_BLOCK_BITS = 128


def encrypt(
    value: bytes,
    key: bytes,
    mode: str = "GCM",
    padding: str = "DEFAULT",
    vector: bytes = b"",
    extra: bytes = b"",
) -> bytes | None:
    """Encrypt bytes; the result begins with the vector, which is random if it is empty."""
    mode = mode.upper()
    if not _is_supported(key, mode, padding) or (extra and mode != "GCM"):
        return None
    size = _VECTOR_BYTES[mode]
    if vector and len(vector) != size:
        return None
    import os

    vector = vector or os.urandom(size)
    if mode == "GCM":
        return vector + _open_gcm(key).encrypt(vector, value, extra)
    return vector + _run_blocks(_pad(value), key, vector, is_decryption=False)


def decrypt(
    value: bytes, key: bytes, mode: str = "GCM", padding: str = "DEFAULT", extra: bytes = b""
) -> bytes | None:
    """Decrypt bytes; None if they are damaged or have another key."""
    mode = mode.upper()
    if not _is_supported(key, mode, padding) or (extra and mode != "GCM"):
        return None
    size = _VECTOR_BYTES[mode]
    vector, rest = value[:size], value[size:]
    if mode == "GCM":
        return _decrypt_gcm(vector, rest, key, extra)
    if len(vector) < size or len(rest) % (_BLOCK_BITS // 8):
        return None
    return _unpad(_run_blocks(rest, key, vector, is_decryption=True))


def _is_supported(key: bytes, mode: str, padding: str) -> bool:
    return len(key) in _KEY_BYTES and padding.upper() in _PADDINGS.get(mode, ())


@lru_cache(256)
def _open_gcm(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _decrypt_gcm(vector: bytes, value: bytes, key: bytes, extra: bytes) -> bytes | None:
    from cryptography.exceptions import InvalidTag

    if len(value) < _TAG_BYTES:
        return None
    try:
        return _open_gcm(key).decrypt(vector, value, extra)
    except InvalidTag:
        return None


def _run_blocks(value: bytes, key: bytes, vector: bytes, *, is_decryption: bool) -> bytes:
    """Encrypt or decrypt whole blocks: in mode ECB if there is no vector, in CBC otherwise."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    # Spark has the mode ECB, too.
    mode = modes.CBC(vector) if vector else modes.ECB()
    cipher = Cipher(algorithms.AES(key), mode)
    run = cipher.decryptor() if is_decryption else cipher.encryptor()
    return run.update(value) + run.finalize()


def _pad(value: bytes) -> bytes:
    size = _BLOCK_BITS // 8 - len(value) % (_BLOCK_BITS // 8)
    return value + bytes([size]) * size


def _unpad(value: bytes) -> bytes | None:
    size = value[-1] if value else 0
    if value and not (0 < size <= len(value) and value.endswith(bytes([size]) * size)):
        return None
    return value[: len(value) - size]


_ALGORITHM = re.compile(r"(?:SHA-?(1|224|256|384|512)|MD5)", re.IGNORECASE)


def authenticate(key: bytes, message: bytes, algorithm: str = "SHA-256") -> bytes | None:
    """Return the code that authenticates a message by a key; None if the key is empty."""
    import hmac

    if not key or not _ALGORITHM.fullmatch(algorithm):
        return None
    return hmac.digest(key, message, algorithm.replace("-", ""))


def _resolve_of_bytes(own: Overload, bytes_at: tuple[int, ...]) -> Callable[..., TypedExpression]:
    """Return the resolver of a call that takes texts in place of bytes."""

    def resolve(call: TypedCall) -> TypedExpression:
        arguments = tuple(
            build_cast(argument, BINARY, argument.span)
            if at in bytes_at and argument.type == STRING
            else argument
            for at, argument in enumerate(call.arguments)
        )
        call = TypedCall(call.name, arguments, call.span)
        _, bound = choose_signature(call, [own.signature])
        return own.apply(call, bound)

    return resolve


def _resolve_checked(own: Overload, bytes_at: tuple[int, ...]) -> Callable[..., TypedExpression]:
    """Return the resolver of a call whose mode and padding are checked, where they are known."""
    resolve_own = _resolve_of_bytes(own, bytes_at)

    def resolve(call: TypedCall) -> TypedExpression:
        for at, known in ((2, [*_PADDINGS]), (3, ["DEFAULT", "NONE", "PKCS"])):
            text = literal_text(call.arguments[at]) if at < len(call.arguments) else None
            is_checked = text is not None and not call.name.startswith("try_")
            if is_checked and text is not None and text.upper() not in known:
                message = f"{call.name} does not know {text!r}"
                hint = f"there are {', '.join(map(repr, known))}"
                raise ExpressionError(message, call.arguments[at].span, hint)
        return resolve_own(call)

    return resolve


def _define(
    names: tuple[str, ...],
    doc: str,
    own: Overload,
    resolve: Callable[..., TypedExpression],
    example: tuple[str, str],
) -> SqlFunction:
    return function(
        *(names[0], "encodings", doc),
        example=example,
        aliases=names[1:],
        resolve=resolve,
        signatures=(own.signature.text,),
    )


_ENCRYPT = overload(
    "aes_encrypt(value: binary, key: binary, [mode: string], [padding: string], [vector: binary],"
    " [extra: binary]) -> binary",
    build=build_mapping(encrypt),
    spark=NO_SPARK_FORM,
)
_DECRYPT = overload(
    "aes_decrypt(value: binary, key: binary, [mode: string], [padding: string], [extra: binary])"
    " -> binary",
    build=build_mapping(decrypt),
    spark=NO_SPARK_FORM,
)
_HMAC = overload(
    "hmac(key: binary, message: binary, [algorithm: string]) -> binary",
    build=build_mapping(authenticate),
    spark=NO_SPARK_FORM,
)

CIPHERS: tuple[SqlFunction, ...] = (
    _define(
        ("aes_encrypt",),
        "Bytes, or a text, encrypted by AES with a key of 16, 24 or 32 bytes, in mode 'GCM' (the"
        " default), 'CBC' or 'ECB'. The result begins with the initialisation vector, which is"
        " random if it is not given; `extra` is authenticated with it in GCM. It takes up to 6 us a"
        " row, as it sets up a cipher for each.",
        _ENCRYPT,
        _resolve_checked(_ENCRYPT, (0, 1, 4, 5)),
        (
            "base64(aes_encrypt('Spark SQL', '1234567890abcdef', 'ECB', 'PKCS'))",
            "3lmwu+Mw0H3fi5NDvcu9lg==",
        ),
    ),
    _define(
        ("aes_decrypt", "try_aes_decrypt"),
        "The bytes that aes_encrypt has encrypted; NULL if they are damaged or the key is another.",
        _DECRYPT,
        _resolve_checked(_DECRYPT, (0, 1, 4)),
        (
            "aes_decrypt(unbase64('3lmwu+Mw0H3fi5NDvcu9lg=='), '1234567890abcdef', 'ECB')",
            "Spark SQL",
        ),
    ),
    _define(
        ("hmac",),
        "The code that authenticates a message by a key, by 'SHA-256' (the default), 'SHA-224',"
        " 'SHA-384', 'SHA-512', 'SHA-1' or 'MD5'; NULL if the key is empty. It takes some 3 us a"
        " row, of the library OpenSSL.",
        _HMAC,
        _resolve_of_bytes(_HMAC, (0, 1)),
        (
            "hex(hmac('key', 'message'))",
            "6E9EF29B75FFFC5B7ABAE527D58FDADB2FE42E7219011976917343065F58ED4A",
        ),
    ),
)
"""The functions of ciphers."""
