"""The parser of type texts, as in the YAML and in `cast`.

    bigint not null      decimal(10,2)      array<struct<a: int, b: string>>

Spark's aliases are accepted (`long`, `integer`, `numeric`); names from other systems (`text`,
`datetime`) are rejected with a hint.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.core.errors.problems import suggest_name
from headrace.core.types.data_types import (
    ATOMS,
    BIGINT,
    FLOAT,
    INT,
    INTERVAL_TYPES,
    MAX_DIGITS,
    MAX_TIME_DIGITS,
    MONTH_FIELDS,
    NULL,
    SMALLINT,
    TIME,
    TIME_FIELDS,
    TIMESTAMP,
    TINYINT,
    Array,
    Decimal,
    Field,
    Interval,
    MapType,
    Struct,
    Time,
    Type,
    is_nested,
)
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern

MAX_DEPTH = 20

SIMPLE_TYPES: dict[str, Type] = {
    **{name: type for name, type in ATOMS.items() if type not in (*INTERVAL_TYPES, NULL, TIME)},
    **{"byte": TINYINT, "short": SMALLINT, "integer": INT, "long": BIGINT, "real": FLOAT},
    "timestamp_ltz": TIMESTAMP,
}
DECIMAL_NAMES = ("decimal", "dec", "numeric")
KNOWN_NAMES = (*SIMPLE_TYPES, *DECIMAL_NAMES, "time", "interval", "array", "map", "struct")

# Names from other systems, and the name here.
FOREIGN_NAMES = {
    **dict.fromkeys(("text", "str", "varchar", "char", "character", "uuid", "json"), "string"),
    **dict.fromkeys(("datetime", "timestamptz"), "timestamp"),
    **dict.fromkeys(("bool",), "boolean"),
    **dict.fromkeys(("int64", "int8", "i64", "uint32", "bigserial"), "bigint"),
    **dict.fromkeys(("int32", "int4", "i32", "uint16", "serial"), "int"),
    **dict.fromkeys(("int16", "int2", "i16", "uint8"), "smallint"),
    **dict.fromkeys(("float64", "float8", "f64", "number"), "double"),
    **dict.fromkeys(("float32", "float4", "f32"), "float"),
    **dict.fromkeys(("bytes", "blob", "bytea", "varbinary"), "binary"),
    **dict.fromkeys(("list", "multiset"), "array<...>"),
    **dict.fromkeys(("row", "record", "object"), "struct<...>"),
    **dict.fromkeys(("dict", "hash", "hstore"), "map<...>"),
}
UNSUPPORTED_NAMES = ("variant",)
NON_COLUMN_NAMES = ("void", "null")

TOKEN_PATTERN = compile_pattern(
    r"\s*(?:(?P<word>[^\W\d]\w*)|(?P<number>\d+)|`(?P<quoted>(?:[^`]|``)+)`|(?P<sign>\S))"
)


class TypeTextError(Exception):
    """An invalid type text: the error, its characters `[start, end)`, and a hint."""

    def __init__(self, message: str, start: int, end: int, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.start, self.end, self.hint = message, start, end, hint


@dataclass(frozen=True, slots=True)
class TypeToken:
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
    type = parser.parse(0)
    nullable = not parser.skip_not_null()
    if parser.token.kind:
        raise parser.build_mismatch('"not null" or the end of the type')
    return type, nullable


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.token = self._scan()

    def _scan(self) -> TypeToken:
        found = TOKEN_PATTERN.match(self.text, self.position)
        if not found or not found.lastgroup:
            return TypeToken("", "", len(self.text), len(self.text))
        self.position = found.end()
        start = found.end() - len(found[0].lstrip())
        return TypeToken(found[found.lastgroup], found.lastgroup, start, found.end())

    def advance(self) -> TypeToken:
        """Consume and return the current token."""
        token, self.token = self.token, self._scan()
        return token

    def build_error(
        self, message: str, hint: str = "", token: TypeToken | None = None
    ) -> TypeTextError:
        token = token or self.token
        return TypeTextError(message, token.start, token.end, hint)

    def build_mismatch(self, wanted: str, hint: str = "") -> TypeTextError:
        return self.build_error(f"wanted {wanted}, got {self.token}", hint)

    def is_sign(self, sign: str) -> bool:
        return self.token.kind == "sign" and self.token.text == sign

    def expect_sign(self, sign: str, hint: str = "") -> None:
        if not self.is_sign(sign):
            raise self.build_mismatch(f'"{sign}"', hint)
        self.advance()

    def parse(self, depth: int) -> Type:
        if depth > MAX_DEPTH:
            raise self.build_error(f"a type is nested at most {MAX_DEPTH} deep")
        if self.token.kind != "word":
            raise self.build_mismatch("a type such as bigint or array<string>")
        word = self.advance()
        match name := word.text.lower():
            case "array":
                return self.parse_array(depth)
            case "map":
                return self.parse_map(depth)
            case "struct":
                return self.parse_struct(depth)
            case _ if name in DECIMAL_NAMES:
                return self.parse_decimal()
            case "interval":
                return self.parse_interval()
            case "time":
                return self.parse_time()
            case _ if name in SIMPLE_TYPES:
                self.refuse_digits(word)
                return SIMPLE_TYPES[name]
        raise self.build_unknown_error(word)

    def build_unknown_error(self, word: TypeToken) -> TypeTextError:
        name = word.text.lower()
        if name in UNSUPPORTED_NAMES:
            return self.build_error(f'the type "{name}" is not built yet', token=word)
        if name in NON_COLUMN_NAMES:
            return self.build_error(f'no column has the type "{word.text}"', token=word)
        suggestion = FOREIGN_NAMES.get(name)
        if suggestion and self.is_sign("("):
            # The hint replaces the length too, as in varchar(20).
            word = replace(word, end=max(self.token.end, self.text.find(")", word.end) + 1))
        hint = f'did you mean "{suggestion}"?' if suggestion else suggest_name(name, KNOWN_NAMES)
        return self.build_error(f'unknown type "{word.text}"', hint, word)

    def refuse_digits(self, word: TypeToken) -> None:
        """Raise an error for what other systems write after the name of a type without parameters,
        as in `timestamp(3)` and `double precision`."""
        if self.is_sign("("):
            end = max(self.token.end, self.text.find(")", word.end) + 1)
            hint = f"write {word.text}"
            if word.text.lower() == "timestamp":
                hint += ", or timestamp_ntz without a time zone: both have microseconds"
            message = f"{word.text} takes no number of digits"
            raise self.build_error(message, hint, replace(word, end=end))
        if word.text.lower() == "double" and self.token.text.lower() == "precision":
            both = replace(word, text="double precision", end=self.token.end)
            raise self.build_error(f'unknown type "{both.text}"', "write double", both)

    def parse_array(self, depth: int) -> Type:
        self.expect_sign("<", "as in: array<bigint>")
        element = self.parse(depth + 1)
        self.refuse_not_null('the elements of an array cannot be "not null"')
        self.expect_sign(">")
        return Array(element)

    def parse_map(self, depth: int) -> Type:
        self.expect_sign("<", "as in: map<string, bigint>")
        first = self.token
        key = self.parse(depth + 1)
        if is_nested(key):
            hint = f"array<struct<key: {key}, value: ...>> holds such entries"
            raise self.build_error(
                f"the key of a map is a single value, and not {key}", hint, first
            )
        self.refuse_not_null("the keys of a map are never null: leave it out")
        self.expect_sign(",", "as in: map<string, bigint>")
        value = self.parse(depth + 1)
        self.refuse_not_null('the values of a map cannot be "not null"')
        self.expect_sign(">")
        return MapType(key, value)

    def refuse_not_null(self, message: str) -> None:
        """Raise an error with the message if `not` comes next."""
        if self.token.text.lower() == "not":
            raise self.build_error(message)

    def parse_decimal(self) -> Type:
        if not self.is_sign("("):
            return Decimal(10, 0)
        self.advance()
        precision = self.parse_digits(1, MAX_DIGITS, "precision")
        scale = 0
        if self.is_sign(","):
            self.advance()
            scale = self.parse_digits(0, precision, "scale")
        self.expect_sign(")")
        return Decimal(precision, scale)

    def parse_interval(self) -> Type:
        first = self.parse_interval_field(MONTH_FIELDS + TIME_FIELDS)
        if self.token.text.lower() != "to":
            return Interval(first, first)
        self.advance()
        fields = MONTH_FIELDS if first in MONTH_FIELDS else TIME_FIELDS
        return Interval(first, self.parse_interval_field(fields[fields.index(first) + 1 :]))

    def parse_interval_field(self, fields: tuple[str, ...]) -> str:
        if self.token.text.lower() not in fields:
            hint = "the types are interval day to second and interval year to month"
            raise self.build_mismatch(" or ".join(fields) or "the end of the type", hint)
        return self.advance().text.lower()

    def parse_time(self) -> Type:
        if not self.is_sign("("):
            return TIME
        self.advance()
        precision = self.parse_digits(0, MAX_TIME_DIGITS, "number of digits")
        self.expect_sign(")")
        return Time(precision)

    def parse_digits(self, low: int, high: int, what: str) -> int:
        token = self.token
        is_number = token.kind == "number" and token.text.isascii() and len(token.text) < 9
        if not is_number or not low <= int(token.text) <= high:
            raise self.build_mismatch(f"a {what} from {low} to {high}")
        self.advance()
        return int(token.text)

    def parse_struct(self, depth: int) -> Type:
        self.expect_sign("<", "as in: struct<a: int, b: string>")
        fields: dict[str, Field] = {}
        while not fields or self.is_sign(","):
            if fields:
                self.advance()
            if self.token.kind not in ("word", "quoted"):
                raise self.build_mismatch("the name of a field")
            token = self.advance()
            name = token.text.replace("``", "`") if token.kind == "quoted" else token.text
            if name in fields:
                raise self.build_error(f'the struct has two fields "{name}"', token=token)
            if self.is_sign(":"):
                self.advance()
            type = self.parse(depth + 1)
            fields[name] = Field(name, type, not self.skip_not_null())
        self.expect_sign(">")
        return Struct(tuple(fields.values()))

    def skip_not_null(self) -> bool:
        """Consume `not null` if it comes next, and return whether it did."""
        if self.token.kind != "word" or self.token.text.lower() != "not":
            return False
        self.advance()
        if self.token.text.lower() != "null":
            raise self.build_mismatch('"null"')
        self.advance()
        return True
