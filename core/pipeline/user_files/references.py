"""References to functions and classes in user files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import InvalidScalar, ScalarReading
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A reference to a function in a user's file, as in `scoring.py:score`."""

    text: Text
    file: str
    name: str

    def resolve_path(self, folder: Path) -> Path:
        """Return the path of the file; a relative one is in the folder of the pipeline."""
        return folder / self.file


def _parse_reference(text: Text) -> UserFunction:
    file, colon, name = text.rpartition(":")
    if not colon or not file.endswith(".py") or not name.isidentifier():
        raise InvalidScalar
    return UserFunction(text, file, name)


FunctionName = Annotated[
    UserFunction,
    ScalarReading("a file and a function in it, such as scoring.py:score", _parse_reference),
]
ClassName = Annotated[
    UserFunction,
    ScalarReading("a file and a class in it, such as fraud.py:Fraud", _parse_reference),
]
