"""The result of a command line."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Ran:
    """Exit status, results, and what was said about them."""

    status: int
    out: str
    err: str


Headrace: TypeAlias = Callable[..., Ran]
