"""What is wrong with a value, before anybody knows where in the file it stands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

KEY = "[key]"
"""The last part of a complaint's location when it is about a key rather than its value."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """One thing wrong: with the value as a whole, or with what stands at `at` inside it.

    With `wanted` it reads "wanted ..., got ...", else it has words of its own. `span` are the
    characters of a text that it is about, where that is not all of it.
    """

    value: object = None
    wanted: str = ""
    message: str = ""
    hint: str = ""
    span: tuple[int, int] | None = None
    at: tuple[int | str, ...] = ()


class Unread(ValueError):
    """A value that could not be read, and why; pydantic carries it to whoever reports it.

    `partial` is what could be read of it, where that is of use; the reading takes it in its place.
    """

    def __init__(self, *complaints: Complaint, partial: object = None) -> None:
        super().__init__("a value could not be read")
        self.complaints = complaints
        self.partial = partial


MAX_COMPLAINTS = 200


@dataclass(slots=True)
class Gathered:
    """The complaints about the pieces of one value; once it is full, reading on tells no more."""

    complaints: list[Complaint] = field(default_factory=list)

    @property
    def full(self) -> bool:
        """Whether there are as many as anybody reads."""
        return len(self.complaints) >= MAX_COMPLAINTS

    def add(self, unread: Unread, *at: int | str) -> None:
        """What is wrong with the piece at a location."""
        self.complaints += (replace(one, at=(*at, *one.at)) for one in unread.complaints)

    def check(self, partial: object = None) -> None:
        """Raise what was gathered, if anything was."""
        if self.complaints:
            raise Unread(*self.complaints, partial=partial)


def wanted(value: object, what: str, hint: str = "", span: tuple[int, int] | None = None) -> Unread:
    """The complaint "wanted ..., got ..."."""
    return Unread(Complaint(value, wanted=what, hint=hint, span=span))


def wrong(
    value: object, message: str, hint: str = "", span: tuple[int, int] | None = None
) -> Unread:
    """A complaint in its own words."""
    return Unread(Complaint(value, message=message, hint=hint, span=span))
