"""Values of records as rows: joined into a block of lines, which a format decodes at once.

A decoder of lines knows nothing of records, so each value has to be one line, and each line one
row or one bad record. That is so for nearly all blocks, and is seen by counting. Where it is not,
values are looked at one by one: a null is skipped, an empty or blank value is bad, a line feed that
is part of a value is hidden from the decoder, and what might reach into its neighbour (an open
quote) is decoded alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from headrace.connectors.formats.csv_shape import Shape
from headrace.connectors.formats.lines import BLANK, BYTE_ORDER_MARK
from headrace.core.types import STRING, Schema

if TYPE_CHECKING:
    import polars as pl

    from headrace.connectors.formats.contract import Decoder

Values: TypeAlias = Sequence["bytes | None"]

BEHIND_START = 1
"""No block stands at the start of a file, where a byte order mark would be left out."""

ODD = (b"\n\n", b"\n\r\n", b"\n" + BYTE_ORDER_MARK)
"""Lines of CSV to be looked at one by one: Polars takes them otherwise, or at one place only."""


@dataclass(slots=True)
class Rows:
    """The rows of some values; what is wrong with the others; and the nulls that were left out.

    Values are named by their number, and there is a row of each that is named nowhere.
    """

    frame: pl.DataFrame
    bad: dict[int, str] = field(default_factory=dict)
    skipped: Sequence[int] = ()


class ValuesReader(Protocol):
    """Makes rows of values. It raises nothing, waits for nothing and works in any thread."""

    def read(self, values: Values) -> Rows:
        """The rows, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Lines:
    """Reads values by a decoder of lines."""

    decoder: Decoder
    empty: str
    """What is wrong with a value that has nothing in it."""
    is_empty: Callable[[bytes], bool]
    is_whole: Callable[[bytes, int], bool]
    """Whether so many values make so many lines, given the block of them."""
    line: Callable[[bytes], bytes | None]
    """A value as a line; None: it might reach into others."""

    def read(self, values: Values) -> Rows:
        """All at once if they are lines, else with care."""
        try:
            block = b"\n".join(cast("Sequence[bytes]", values))
        except TypeError:
            return self._carefully(values)
        if not values or not self.is_whole(block, len(values)):
            return self._carefully(values)
        rows = self._together(block, cast("Sequence[bytes]", values))
        return self._carefully(values) if rows is None else rows

    def _together(self, block: bytes, lines: Sequence[bytes]) -> Rows | None:
        """The rows of a block of these lines; None: they did not turn out to be lines."""
        frame, bad = self.decoder.decode(block, BEHIND_START)
        if frame.height + len(bad) != len(lines):
            return None
        if not bad:
            return Rows(frame)
        starts = list(accumulate((len(line) + 1 for line in lines), initial=BEHIND_START))
        numbers = [bisect_right(starts, cast("int", each.position)) - 1 for each in bad]
        return Rows(frame, dict(zip(numbers, (each.error for each in bad), strict=True)))

    def _carefully(self, values: Values) -> Rows:
        numbers, lines, alone, skipped = [], [], [], []
        bad: dict[int, str] = {}
        for number, value in enumerate(values):
            if value is None:
                skipped.append(number)
            elif self.is_empty(value):
                bad[number] = self.empty
            elif (line := self.line(value)) is None:
                alone.append(number)
            else:
                numbers.append(number)
                lines.append(line)
        rows = self._together(b"\n".join(lines), lines)
        if rows is None:
            numbers, alone, rows = [], sorted(numbers + alone), self._none()
        bad |= {numbers[at]: error for at, error in rows.bad.items()}
        good = [number for number in numbers if number not in bad]
        return self._merged(values, good, rows.frame, alone, bad, skipped)

    def _merged(
        self,
        values: Values,
        good: list[int],
        frame: pl.DataFrame,
        alone: list[int],
        bad: dict[int, str],
        skipped: list[int],
    ) -> Rows:
        """With the rows of the values that have to be decoded alone, each in its place."""
        import polars as pl

        frames = [frame]
        for number in alone:
            found, wrong = self.decoder.decode(values[number] or b"", BEHIND_START)
            if found.height == 1 and not wrong:
                frames.append(found)
                good.append(number)
            elif wrong and not found.height and len(wrong) == 1:
                bad[number] = wrong[0].error
            else:
                bad[number] = f"wanted one record, got {found.height + len(wrong)}"
        if len(frames) > 1:
            order = sorted(range(len(good)), key=good.__getitem__)
            frame = pl.concat(frames)[order] if frame.width else pl.DataFrame(height=len(good))
        return Rows(frame, dict(sorted(bad.items())), skipped)

    def _none(self) -> Rows:
        return Rows(self.decoder.decode(b"", BEHIND_START)[0])


def json_lines(decoder: Decoder) -> Lines:
    """JSON: a line feed within a value can be any other white space, and in a text neither may be.

    Blank values are not looked for: the decoder makes no row of them, which shows.
    """
    return Lines(
        decoder,
        "wanted a JSON object, got nothing",
        lambda value: not value.strip(BLANK),
        lambda block, count: block.count(b"\n") == count - 1,
        lambda value: value.replace(b"\n", b"\r"),
    )


def csv_lines(decoder: Decoder, shape: Shape) -> Lines:
    """CSV without headers: a value is a record, and line feeds stand within quotes."""

    def is_whole(block: bytes, count: int) -> bool:
        lines = b"\n%b\n" % block  # a return that ends no line is read otherwise among others
        if lines.count(b"\n") != count + 1 or any(odd in lines for odd in ODD):
            return False
        if lines.count(b"\r") != lines.count(b"\r\n"):
            return False
        if shape.quote not in block:
            return True
        rest = shape.unquoted(block)
        return shape.quote not in rest and rest.count(b"\n") == count - 1

    def line(value: bytes) -> bytes | None:
        text = bare(value)
        rest = shape.unquoted(text)
        return None if shape.quote in rest or b"\n" in rest or b"\r" in text else text

    def is_empty(value: bytes) -> bool:
        return not bare(value)

    return Lines(decoder, "wanted a record of CSV, got nothing", is_empty, is_whole, line)


def bare(value: bytes) -> bytes:
    """A value without the mark and the line end that some clients send with it."""
    while value.startswith(BYTE_ORDER_MARK):
        value = value.removeprefix(BYTE_ORDER_MARK)
    return value.removesuffix(b"\n").removesuffix(b"\r")


@dataclass(frozen=True, slots=True)
class Raw:
    """Reads values as they are, into the one column of the schema, if it is wanted at all."""

    schema: Schema

    def read(self, values: Values) -> Rows:
        """A row of each; text that is not UTF-8 is bad, and so is a null that must not be."""
        import polars as pl

        if not len(self.schema):
            return Rows(pl.DataFrame(height=len(values)))
        wanted = self.schema.fields[0]
        given = pl.Series(wanted.name, values, dtype=pl.Binary)
        column = texts(given, _text) if wanted.type == STRING else given
        bad = dict.fromkeys((column.is_null() & given.is_not_null()).arg_true(), "wanted UTF-8")
        if not wanted.nullable:
            why = f'column "{wanted.name}": wanted {wanted.type} not null, got null'
            bad |= dict.fromkeys(given.is_null().arg_true(), why)
        if not bad:
            return Rows(column.to_frame())
        good = pl.Series([True]).new_from_index(0, len(values)).scatter(list(bad), False)
        return Rows(column.filter(good).to_frame(), dict(sorted(bad.items())))


def texts(given: pl.Series, otherwise: Callable[[bytes], str | None]) -> pl.Series:
    """Bytes as text; where some are not UTF-8, by that function."""
    import polars as pl

    try:
        return given.cast(pl.String)
    except pl.exceptions.PolarsError:
        found = [None if value is None else otherwise(value) for value in given]
        return pl.Series(given.name, found, dtype=pl.String)


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
