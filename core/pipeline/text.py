"""The value of a scalar that knows the position of each of its characters in the file.

`Text` is a `str`, so that an expression's parser accepts it as it is; an error at characters 3 to 7
of a folded, quoted or interpolated value is then shown at the right line and column.

A text with a secret in it prints as `****`: through `str()`, `repr()`, f-strings and `printable`.
Its real characters are read with `reveal()`, which is called where they go to a connector.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.core.pipeline.nodes import Scalar
from headrace.core.pipeline.offsets import content_start, offsets
from headrace.core.problems import Place

MAX_SHOWN = 60
MASK = "****"


@dataclass(frozen=True, slots=True)
class Piece:
    """A replacement of the characters `[start, end)` of a scalar by `length` characters."""

    start: int
    end: int
    length: int


class Text(str):
    """A value with its position; equal to, and hashed as, the plain string."""

    __slots__ = ("pieces", "scalar", "secret")

    scalar: Scalar | None
    pieces: tuple[Piece, ...]
    secret: bool

    def __new__(
        cls,
        value: str,
        scalar: Scalar | None = None,
        pieces: tuple[Piece, ...] = (),
        secret: bool = False,
    ) -> Text:
        """Return a scalar's value, raw or interpolated; without a scalar it is a default."""
        text = super().__new__(cls, value)
        text.scalar = scalar
        text.pieces = pieces
        text.secret = secret
        return text

    def locate(self, start: int = 0, end: int | None = None) -> Place:
        """Return the position of the characters `[start, end)`; by default of the whole value."""
        if self.scalar is None:
            return Place("default", 0, 0, 0, "")
        end = len(self) if end is None else end
        first, last = self._raw(start)[0], self._raw(max(start, end - 1))[1]
        place = self.scalar.file.place(*_in_file(self.scalar, first, last, empty=end <= start))
        if self.secret and not self.pieces:
            # The secret is in the file as it is.
            before, after = place.text[: place.column - 1], place.text[place.column - 1 :]
            hidden = before + "*" * place.length + after[place.length :]
            # The name of a `--set` argument is its whole text, secret included.
            place = replace(place, text=hidden, file=place.file.replace(self.reveal(), MASK))
        return replace(place, replaced=self._replaced(start, end)) if self.pieces else place

    def _replaced(self, start: int, end: int) -> str:
        """Return the first text inserted for `${...}` among the characters, unless it is secret."""
        shift = 0
        for piece in self.pieces:
            begin = piece.start + shift
            shift += piece.length - (piece.end - piece.start)
            put = self.reveal()[begin : begin + piece.length]
            escape = put == "${" and piece.end - piece.start == len("$${")
            if begin < max(end, start + 1) and start < begin + piece.length and not escape:
                return "" if self.secret else quoted(put)
        return ""

    def reveal(self) -> str:
        """Return the real characters, also of a secret."""
        return str.__str__(self)

    @property
    def shown(self) -> str:
        """The text that may be printed: a secret is masked."""
        return MASK if self.secret else str.__str__(self)

    def _raw(self, index: int) -> tuple[int, int]:
        """Return the characters of the scalar that one character of the value comes from."""
        shift = 0
        for piece in self.pieces:
            begin = piece.start + shift
            if index < begin:
                break
            if index < begin + piece.length:
                return piece.start, piece.end
            shift += piece.length - (piece.end - piece.start)
        return index - shift, index - shift + 1

    def __str__(self) -> str:
        return self.shown

    def __repr__(self) -> str:
        return repr(self.shown)

    def __format__(self, spec: str) -> str:
        return format(self.shown, spec)


def quoted(value: str) -> str:
    """Return a value in quotes, cut if it is long."""
    return f'"{value}"' if len(value) <= MAX_SHOWN else f'"{value[: MAX_SHOWN - 3]}..."'


def _in_file(scalar: Scalar, first: int, last: int, *, empty: bool) -> tuple[int, int]:
    """Return the file's characters that `[first, last)` of a scalar's raw value comes from."""
    found = offsets(scalar)
    if not found:
        return content_start(scalar), scalar.end
    if first >= len(found):
        return found[-1][1], found[-1][1] + 1
    begin = found[first][0]
    return begin, begin if empty else found[min(last, len(found)) - 1][1]
