"""The text of a type, as the YAML and `cast` write it, read into a `Type`.

bigint        decimal(10,2)        array<struct<a: int, b: string not null>>
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.core.problems import did_you_mean
from headrace.core.types import (
    ATOMS,
    BIGINT,
    BINARY,
    BOOLEAN,
    FLOAT,
    INT,
    MAX_DIGITS,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Array,
    Decimal,
    Field,
    Struct,
    Type,
)

# Spark's own other names for its types.
_SYNONYMS: dict[str, Type] = {
    "integer": INT,
    "long": BIGINT,
    "short": SMALLINT,
    "byte": TINYINT,
    "real": FLOAT,
    "timestamp_ltz": TIMESTAMP,
}
_DECIMALS = ("decimal", "dec", "numeric")
# What people write from habit, and what it is called here.
_HABITS = {
    **dict.fromkeys(("text", "str", "varchar", "char", "uuid"), STRING),
    **dict.fromkeys(("int64", "int8", "bigserial", "uint32"), BIGINT),
    **dict.fromkeys(("int32", "int4", "uint16"), INT),
    **dict.fromkeys(("bool",), BOOLEAN),
    **dict.fromkeys(("bytes", "blob", "bytea"), BINARY),
    **dict.fromkeys(("datetime", "timestamptz", "time"), TIMESTAMP),
    **dict.fromkeys(("float64", "number", "float8"), ATOMS["double"]),
    **dict.fromkeys(("float32", "float4"), FLOAT),
}
_WORD = re.compile(r"\s*(?:(\w+)|`((?:[^`]|``)+)`|(.))", re.DOTALL)
_MAX_NESTING = 20


class TypeTextError(Exception):
    """A type's text is wrong at the characters `[start, end)`."""

    def __init__(self, message: str, start: int, end: int, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.start, self.end, self.hint = message, start, end, hint


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    start: int
    end: int
    quoted: bool = False


def parse_type(text: str) -> Type:
    """The type that a text names.

    >>> str(parse_type("array<struct<a: int, b: DECIMAL(10, 2)>>"))
    'array<struct<a:int,b:decimal(10,2)>>'
    """
    reader = _Reader(text)
    type = reader.type(0)
    reader.end()
    return type


def parse_column_type(text: str) -> tuple[Type, bool]:
    """The type of a column and whether it may be null: `bigint not null`.

    >>> parse_column_type("int not null")[1]
    False
    """
    reader = _Reader(text)
    type = reader.type(0)
    nullable = not reader.not_null()
    reader.end()
    return type, nullable


class _Reader:
    def __init__(self, text: str) -> None:
        self._words = [
            _Word(m[1] or m[2] or m[3], m.start(m.lastindex or 0), m.end(), bool(m[2]))
            for m in _WORD.finditer(text)
            if m[0].strip()
        ]
        self._text = text
        self._at = 0

    def _current(self) -> _Word:
        ends = len(self._text)
        return self._words[self._at] if self._at < len(self._words) else _Word("", ends, ends)

    def _take(self) -> _Word:
        word = self._current()
        self._at += 1
        return word

    def _accept(self, text: str) -> bool:
        if self._current().text.lower() != text or self._current().quoted:
            return False
        self._at += 1
        return True

    def _fail(self, wanted: str) -> TypeTextError:
        word = self._current()
        came = f'"{word.text}"' if word.text else "the end"
        start = word.start if word.text else max(word.start - 1, 0)
        return TypeTextError(f"wanted {wanted}, got {came}", start, max(word.end, start + 1))

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._fail(f'"{text}"')

    def end(self) -> None:
        if self._current().text:
            raise self._fail('"not null" or the end of the type')

    def not_null(self) -> bool:
        if not self._accept("not"):
            return False
        self._expect("null")
        return True

    def type(self, depth: int) -> Type:
        word = self._current()
        if depth > _MAX_NESTING:
            message = f"types are nested at most {_MAX_NESTING} deep"
            raise TypeTextError(message, word.start, word.end)
        if not word.text:
            raise self._fail("a type such as bigint or string")
        self._at += 1
        name = word.text.lower()
        if name in _DECIMALS:
            return self._decimal()
        if name == "array":
            self._expect("<")
            element = self.type(depth + 1)
            self._expect(">")
            return Array(element)
        if name == "struct":
            return self._struct(depth)
        if name in _SYNONYMS or (name in ATOMS and name != "void"):
            return _SYNONYMS.get(name) or ATOMS[name]
        raise _unknown(word)

    def _decimal(self) -> Type:
        if not self._accept("("):
            return Decimal(10, 0)
        precision = self._number(1, MAX_DIGITS, "precision")
        scale = self._number(0, precision, "scale") if self._accept(",") else 0
        self._expect(")")
        return Decimal(precision, scale)

    def _number(self, least: int, most: int, what: str) -> int:
        word = self._current()
        if not (word.text.isascii() and word.text.isdigit()):
            raise self._fail(f"a {what} of {least} to {most}")
        if not least <= int(word.text) <= most:
            message = f"wanted a {what} of {least} to {most}, got {word.text}"
            raise TypeTextError(message, word.start, word.end)
        self._at += 1
        return int(word.text)

    def _struct(self, depth: int) -> Type:
        self._expect("<")
        fields: list[Field] = []
        while not fields or self._accept(","):
            name = self._take()
            if not (name.quoted or name.text.isidentifier()):
                self._at -= 1
                raise self._fail("the name of a field")
            if name.text in (field.name for field in fields):
                message = f'the struct has two fields "{name.text}"'
                raise TypeTextError(message, name.start, name.end)
            self._accept(":")
            type = self.type(depth + 1)
            fields.append(Field(name.text.replace("``", "`"), type, not self.not_null()))
        self._expect(">")
        return Struct(tuple(fields))


def _unknown(word: _Word) -> TypeTextError:
    name = word.text.lower()
    message = f'unknown type "{word.text}"'
    if name in ("map", "variant", "timestamp_ntz", "varchar", "char"):
        message = f'the type "{name}" is not built yet'
    known = (*ATOMS, *_SYNONYMS, *_DECIMALS, "array", "struct")
    habit = f'did you mean "{_HABITS[name]}"?' if name in _HABITS else ""
    hint = habit or did_you_mean(name, (name for name in known if " " not in name))
    if name in ("map", "variant"):
        hint = "struct<...> and array<...> are"
    return TypeTextError(message, word.start, word.end, hint)
