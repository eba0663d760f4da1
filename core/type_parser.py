"""The parser of type texts, as in the YAML and in `cast`.

    bigint not null      decimal(10,2)      array<struct<a: int, b: string>>

Spark's aliases are accepted (`long`, `integer`, `numeric`); names from other systems (`text`,
`datetime`) are rejected with a hint.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.core.problems import did_you_mean
from headrace.core.types import (
    ATOMS,
    BIGINT,
    FLOAT,
    INT,
    INTERVALS,
    MAX_DIGITS,
    NULL,
    SMALLINT,
    TIMESTAMP,
    TINYINT,
    Array,
    Decimal,
    Field,
    Struct,
    Type,
)

MAX_DEPTH = 20

PLAIN: dict[str, Type] = {
    **{name: type for name, type in ATOMS.items() if type not in (*INTERVALS, NULL)},
    **{"byte": TINYINT, "short": SMALLINT, "integer": INT, "long": BIGINT, "real": FLOAT},
    "timestamp_ltz": TIMESTAMP,
}
DECIMALS = ("decimal", "dec", "numeric")
KNOWN = (*PLAIN, *DECIMALS, "array", "struct")

# Names from other systems, and the name here.
HABITS = {
    **dict.fromkeys(("text", "str", "varchar", "char", "character", "uuid", "json"), "string"),
    **dict.fromkeys(("datetime", "timestamptz", "timestamp_ntz"), "timestamp"),
    **dict.fromkeys(("bool",), "boolean"),
    **dict.fromkeys(("int64", "int8", "i64", "uint32", "bigserial"), "bigint"),
    **dict.fromkeys(("int32", "int4", "i32", "uint16", "serial"), "int"),
    **dict.fromkeys(("int16", "int2", "i16", "uint8"), "smallint"),
    **dict.fromkeys(("float64", "float8", "f64", "number"), "double"),
    **dict.fromkeys(("float32", "float4", "f32"), "float"),
    **dict.fromkeys(("bytes", "blob", "bytea", "varbinary"), "binary"),
    **dict.fromkeys(("list",), "array<...>"),
    **dict.fromkeys(("row", "record", "object"), "struct<...>"),
}
LATER = ("map", "variant")
NO_COLUMN = ("void", "null", "interval")

TOKEN = re.compile(
    r"\s*(?:(?P<word>[^\W\d]\w*)|(?P<number>\d+)|`(?P<quoted>(?:[^`]|``)+)`|(?P<sign>\S))"
)


class TypeTextError(Exception):
    """An invalid type text: the error, its characters `[start, end)`, and a hint."""

    def __init__(self, message: str, start: int, end: int, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.start, self.end, self.hint = message, start, end, hint


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a number, a name in back quotes, or a sign; the end has an empty kind."""

    text: str
    kind: str
    start: int
    end: int

    def __str__(self) -> str:
        return f'"{self.text}"' if self.kind else "the end"


def parse_type(text: str) -> tuple[Type, bool]:
    """Return the type, and whether the column may be null.

    >>> type, nullable = parse_type("struct<a: long, b: decimal(10,2)> not null")
    >>> str(type), nullable
    ('struct<a:bigint,b:decimal(10,2)>', False)
    """
    parser = _Parser(text)
    type = parser.type(0)
    nullable = not parser.not_null()
    if parser.token.kind:
        raise parser.unwanted('"not null" or the end of the type')
    return type, nullable


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.token = self._scan()

    def _scan(self) -> Token:
        found = TOKEN.match(self.text, self.at)
        if not found or not found.lastgroup:
            return Token("", "", len(self.text), len(self.text))
        self.at = found.end()
        start = found.end() - len(found[0].lstrip())
        return Token(found[found.lastgroup], found.lastgroup, start, found.end())

    def next(self) -> Token:
        """Consume and return the current token."""
        token, self.token = self.token, self._scan()
        return token

    def error(self, message: str, hint: str = "", token: Token | None = None) -> TypeTextError:
        token = token or self.token
        return TypeTextError(message, token.start, token.end, hint)

    def unwanted(self, wanted: str, hint: str = "") -> TypeTextError:
        return self.error(f"wanted {wanted}, got {self.token}", hint)

    def is_sign(self, sign: str) -> bool:
        return self.token.kind == "sign" and self.token.text == sign

    def sign(self, sign: str, hint: str = "") -> None:
        if not self.is_sign(sign):
            raise self.unwanted(f'"{sign}"', hint)
        self.next()

    def type(self, depth: int) -> Type:
        if depth > MAX_DEPTH:
            raise self.error(f"a type is nested at most {MAX_DEPTH} deep")
        if self.token.kind != "word":
            raise self.unwanted("a type such as bigint or array<string>")
        word = self.next()
        match name := word.text.lower():
            case "array":
                return self.array(depth)
            case "struct":
                return self.struct(depth)
            case _ if name in DECIMALS:
                return self.decimal()
            case _ if name in PLAIN:
                return PLAIN[name]
        raise self.unknown(word)

    def unknown(self, word: Token) -> TypeTextError:
        name = word.text.lower()
        if name in LATER:
            return self.error(f'the type "{name}" is not built yet', token=word)
        if name in NO_COLUMN:
            return self.error(f'no column has the type "{word.text}"', token=word)
        habit = HABITS.get(name)
        hint = f'did you mean "{habit}"?' if habit else did_you_mean(name, KNOWN)
        return self.error(f'unknown type "{word.text}"', hint, word)

    def array(self, depth: int) -> Type:
        self.sign("<", "as in: array<bigint>")
        element = self.type(depth + 1)
        if self.token.text.lower() == "not":
            raise self.error('the elements of an array cannot be "not null"')
        self.sign(">")
        return Array(element)

    def decimal(self) -> Type:
        if not self.is_sign("("):
            return Decimal(10, 0)
        self.next()
        precision = self.digits(1, MAX_DIGITS, "precision")
        scale = 0
        if self.is_sign(","):
            self.next()
            scale = self.digits(0, precision, "scale")
        self.sign(")")
        return Decimal(precision, scale)

    def digits(self, low: int, high: int, what: str) -> int:
        token = self.token
        is_number = token.kind == "number" and token.text.isascii() and len(token.text) < 9
        if not is_number or not low <= int(token.text) <= high:
            raise self.unwanted(f"a {what} from {low} to {high}")
        self.next()
        return int(token.text)

    def struct(self, depth: int) -> Type:
        self.sign("<", "as in: struct<a: int, b: string>")
        fields: dict[str, Field] = {}
        while not fields or self.is_sign(","):
            if fields:
                self.next()
            if self.token.kind not in ("word", "quoted"):
                raise self.unwanted("the name of a field")
            token = self.next()
            name = token.text.replace("``", "`") if token.kind == "quoted" else token.text
            if name in fields:
                raise self.error(f'the struct has two fields "{name}"', token=token)
            if self.is_sign(":"):
                self.next()
            type = self.type(depth + 1)
            fields[name] = Field(name, type, not self.not_null())
        self.sign(">")
        return Struct(tuple(fields.values()))

    def not_null(self) -> bool:
        """Consume `not null` if it comes next, and return whether it did."""
        if self.token.kind != "word" or self.token.text.lower() != "not":
            return False
        self.next()
        if self.token.text.lower() != "null":
            raise self.unwanted('"null"')
        self.next()
        return True
