"""Errors in a value, before its position in the file is known."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

KEY = "[key]"
"""The last part of a complaint's location when it is about a key rather than its value."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """One error, in the value as a whole or in the part of the value at `at`.

    With `wanted` the message reads "wanted ..., got ..."; otherwise it is `message`. `span` are the
    characters of a text that the error is about, where that is not the whole text.
    """

    value: object = None
    wanted: str = ""
    message: str = ""
    hint: str = ""
    span: tuple[int, int] | None = None
    at: tuple[int | str, ...] = ()


class Unread(ValueError):
    """An error that carries everything wrong with a value, through pydantic to the report.

    `partial` is the part of the value that could be read, where that is of use; validation
    continues with it.
    """

    def __init__(self, *complaints: Complaint, partial: object = None) -> None:
        super().__init__("a value could not be read")
        self.complaints = complaints
        self.partial = partial


MAX_COMPLAINTS = 200


@dataclass(slots=True)
class Gathered:
    """The errors in the elements of one value, up to a limit."""

    complaints: list[Complaint] = field(default_factory=list)

    @property
    def full(self) -> bool:
        """Whether the limit is reached: further errors are of no use."""
        return len(self.complaints) >= MAX_COMPLAINTS

    def add(self, unread: Unread, *at: int | str) -> None:
        """Add the errors of the element at a location."""
        self.complaints += (replace(one, at=(*at, *one.at)) for one in unread.complaints)

    def check(self, partial: object = None) -> None:
        """Raise Unread with the collected errors, if there are any."""
        if self.complaints:
            raise Unread(*self.complaints, partial=partial)


def wanted(value: object, what: str, hint: str = "", span: tuple[int, int] | None = None) -> Unread:
    """Return the error "wanted ..., got ..."."""
    return Unread(Complaint(value, wanted=what, hint=hint, span=span))


def wrong(
    value: object, message: str, hint: str = "", span: tuple[int, int] | None = None
) -> Unread:
    """Return an error with its own message."""
    return Unread(Complaint(value, message=message, hint=hint, span=span))
