"""The value of a scalar that knows where each of its characters stands in the file.

`Text` is a `str`, so that an expression's parser takes it as it is; its error at characters 3 to 7
of a folded, quoted or interpolated value is then shown at the right line and column.

A text with a secret in it prints as `****`: through `str()`, `repr()`, f-strings and `shown`. Its
real characters are read with `reveal()`, which is said where they are handed to a connector.
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
    """What replaced the characters `[start, end)` of a scalar: `length` characters of the value."""

    start: int
    end: int
    length: int


class Text(str):
    """A value with its place; equal to, and hashed as, the plain string."""

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
        """A scalar's value, or what interpolation made of it; without a scalar, a default."""
        text = super().__new__(cls, value)
        text.scalar = scalar
        text.pieces = pieces
        text.secret = secret
        return text

    def locate(self, start: int = 0, end: int | None = None) -> Place:
        """Where the characters `[start, end)` of the value stand; by default all of them."""
        if self.scalar is None:
            return Place("default", 0, 0, 0, "")
        end = len(self) if end is None else end
        first, last = self._raw(start)[0], self._raw(max(start, end - 1))[1]
        place = self.scalar.file.place(*_in_file(self.scalar, first, last, empty=end <= start))
        if self.secret and not self.pieces:
            # It stands in the file as it is.
            before, behind = place.text[: place.column - 1], place.text[place.column - 1 :]
            hidden = before + "*" * place.length + behind[place.length :]
            # An argument is called by all of what it says.
            place = replace(place, text=hidden, file=place.file.replace(self.reveal(), MASK))
        return replace(place, replaced=self._replaced(start, end)) if self.pieces else place

    def _replaced(self, start: int, end: int) -> str:
        """The first text that was put in for `${...}` among those characters, if it may be said."""
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
        """The real characters, also of a secret."""
        return str.__str__(self)

    @property
    def shown(self) -> str:
        """What may be printed."""
        return MASK if self.secret else str.__str__(self)

    def _raw(self, index: int) -> tuple[int, int]:
        """The characters of the scalar behind one character of the value."""
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
    """A value in quotes, cut if it is long."""
    return f'"{value}"' if len(value) <= MAX_SHOWN else f'"{value[: MAX_SHOWN - 3]}..."'


def _in_file(scalar: Scalar, first: int, last: int, *, empty: bool) -> tuple[int, int]:
    """The file's characters behind `[first, last)` of a scalar's own value."""
    found = offsets(scalar)
    if not found:
        return content_start(scalar), scalar.end
    if first >= len(found):
        return found[-1][1], found[-1][1] + 1
    begin = found[first][0]
    return begin, begin if empty else found[min(last, len(found)) - 1][1]
