"""The value of a scalar that knows the position of each of its characters in the file.

`Text` is a `str`, so that an expression's parser accepts it as it is; an error at characters 3 to 7
of a folded, quoted or interpolated value is then shown at the right line and column. A text with a
secret in it prints as `****`: through `str()`, `repr()`, f-strings and `printable`. Its real
characters are read with `reveal()`, which is called where they go to a connector.

The models' input has two special values, because None means that a key is absent: YAML's null is
passed as `NOTHING`, and a value that has been reported already as `BROKEN`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from headrace.core.errors.problems import Location
from headrace.core.pipeline.yaml_document.nodes import YamlScalar
from headrace.core.pipeline.yaml_document.scalar_offsets import compute_offsets, find_content_start
from headrace.core.types.lazy_dataclass import dataclass

MAX_SHOWN = 60


MASK = "****"


@dataclass(frozen=True, slots=True)
class Replacement:
    """A replacement of the characters `[start, end)` of a scalar by `length` characters.

    `is_shown`: a message says what was inserted, as for `${...}`.
    """

    start: int
    end: int
    length: int
    is_shown: bool = True


@dataclass(frozen=True, slots=True)
class TextPart:
    """The characters `[start, end)` of a text, or `inserted`, which stands for them."""

    start: int
    end: int
    inserted: str | None = None


class Text(str):
    """A value with its position; equal to, and hashed as, the plain string."""

    __slots__ = ("pieces", "scalar", "secret")

    scalar: YamlScalar | None
    pieces: tuple[Replacement, ...]
    secret: bool

    def __new__(
        cls,
        value: str,
        scalar: YamlScalar | None = None,
        pieces: tuple[Replacement, ...] = (),
        secret: bool = False,
    ) -> Text:
        """Return a scalar's value, raw or interpolated; without a scalar it is a default."""
        text = super().__new__(cls, value)
        text.scalar = scalar
        text.pieces = pieces
        text.secret = secret
        return text

    def locate(self, start: int = 0, end: int | None = None) -> Location:
        """Return the position of the characters `[start, end)`; by default of the whole value."""
        if self.scalar is None:
            return Location("default", 0, 0, 0, "")
        end = len(self) if end is None else end
        first, last = self._map_to_scalar(start)[0], self._map_to_scalar(max(start, end - 1))[1]
        place = self.scalar.file.locate(*_map_to_file(self.scalar, first, last, empty=end <= start))
        if self.secret and not self.pieces:
            # The secret is in the file as it is.
            before, after = place.text[: place.column - 1], place.text[place.column - 1 :]
            hidden = before + "*" * place.length + after[place.length :]
            # The name of a `--set` argument is its whole text, secret included.
            place = replace(place, text=hidden, file=place.file.replace(self.reveal(), MASK))
        return (
            replace(place, replaced_value=self._inserted_text(start, end)) if self.pieces else place
        )

    def _inserted_text(self, start: int, end: int) -> str:
        """Return the first text inserted for `${...}` among the characters, unless it is secret."""
        shift = 0
        for piece in self.pieces:
            begin = piece.start + shift
            shift += piece.length - (piece.end - piece.start)
            put = self.reveal()[begin : begin + piece.length]
            escape = put == "${" and piece.end - piece.start == len("$${")
            if not piece.is_shown or escape:
                continue
            if begin < max(end, start + 1) and start < begin + piece.length:
                return "" if self.secret else quote_short(put)
        return ""

    def compose(self, parts: Iterable[TextPart]) -> Text:
        """Return a text of parts of this one, each with its position.

        They should be in their order here: a part that is before another one's end gets that as its
        position.
        """
        value, pieces, done = list[str](), list[Replacement](), 0
        for part in parts:
            first = self._map_to_scalar(part.start)[0]
            last = self._map_to_scalar(part.end - 1)[1] if part.end > part.start else first
            is_repeated = first < done
            first, last = max(first, done), max(last, done)
            if first > done:
                pieces.append(Replacement(done, first, 0, is_shown=False))
            own = [each for each in self.pieces if first <= each.start and each.end <= last]
            new = self.reveal()[part.start : part.end] if part.inserted is None else part.inserted
            grown = sum(each.length - (each.end - each.start) for each in own)
            if part.inserted is None and last - first + grown == len(new):
                pieces.extend(own)
            else:
                is_shown = part.inserted is None and not is_repeated
                pieces.append(Replacement(first, last, len(new), is_shown))
            value.append(new)
            done = last
        return Text("".join(value), self.scalar, tuple(pieces))

    def reveal(self) -> str:
        """Return the real characters, also of a secret."""
        return str.__str__(self)

    @property
    def printable(self) -> str:
        """The text that may be printed: a secret is masked."""
        return MASK if self.secret else str.__str__(self)

    def _map_to_scalar(self, index: int) -> tuple[int, int]:
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
        return self.printable

    def __repr__(self) -> str:
        return repr(self.printable)

    def __format__(self, spec: str) -> str:
        return format(self.printable, spec)


def quote_short(value: str) -> str:
    """Return a value in quotes, cut if it is long."""
    return f'"{value}"' if len(value) <= MAX_SHOWN else f'"{value[: MAX_SHOWN - 3]}..."'


def _map_to_file(scalar: YamlScalar, first: int, last: int, *, empty: bool) -> tuple[int, int]:
    """Return the file's characters that `[first, last)` of a scalar's raw value comes from."""
    found = compute_offsets(scalar)
    if not found:
        return find_content_start(scalar), scalar.end
    if first >= len(found):
        return found[-1][1], found[-1][1] + 1
    begin = found[first][0]
    return begin, begin if empty else found[min(last, len(found)) - 1][1]


class _SpecialValue:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


NOTHING: Final = _SpecialValue("nothing")


BROKEN: Final = _SpecialValue("broken")


def describe_value(value: object) -> str:
    """Describe a value for a message, without showing a secret."""
    match value:
        case Text(secret=True):
            return str(value)
        case str():
            return quote_short(value)
        case dict():
            return "a mapping" if value else "an empty mapping"
        case list():
            return "a list" if value else "an empty list"
    return "nothing"
