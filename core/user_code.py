"""Functions of users, loaded only from the file that the pipeline names.

The file's folder is on the import path while it is loaded, so that it may import its neighbours.
What goes wrong inside is told with the user's file, line and row, never with our own frames.

On another machine, in an executor of Spark's, the folder may not be there. Then a copy of the file
is: on the import path, below `headrace_shipped`, by the path that it has in its own file system.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

SHIPPED = "headrace_shipped"

_LOADING = threading.RLock()
"""A file is loaded once, and the import path is everybody's."""

LONG = 200
"""So much of a value is shown."""


class UserCodeError(Exception):
    """A user's function failed, or is not what the pipeline says: what, and where in their file."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def refusals() -> tuple[type[BaseException], ...]:
    """What Polars raises at values that are not of a type, or for which Python has none."""
    import polars as pl

    # At decimals that are no numbers it panics, and at those that are too large it says Runtime.
    known = (TypeError, ValueError, OverflowError, RuntimeError)
    return (*known, pl.exceptions.PolarsError, pl.exceptions.PanicException)


def fits(value: object, type: pl.DataType) -> bool:
    """Whether Polars takes a value for one of the type."""
    import polars as pl

    try:
        pl.Series("one", [value], dtype=type, strict=True)
    except refusals():
        return False
    return True


@dataclass(frozen=True, slots=True)
class UserCode:
    """A function or a class of a user: `w.py:P99`, in the folder of the pipeline."""

    folder: Path
    file: str
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.name}"

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / self.file

    @property
    def shown(self) -> str:
        """How messages call it."""
        return f"{self.path.name}:{self.name}"

    def load(self) -> Callable[..., Any]:
        """It, from its file, which is run once in a process."""
        return load_function(self.path, self.name)

    def failed(self, error: BaseException) -> str:
        """What is said of an exception in it."""
        return f"{where(error, self.path)}: {said(error)}"


@lru_cache(maxsize=256)
def made_of(code: UserCode) -> Any:
    """The one object of a class of a user that there is in a process."""
    kind = code.load()
    try:
        return kind()
    except Exception as error:
        raise UserCodeError(f"{code.failed(error)} (making a {code.name})") from error


def load_function(path: Path, name: str) -> Callable[..., Any]:
    """The function of that name in that file."""
    module = _module(located(path))
    found = getattr(module, name, None)
    if not callable(found):
        raise UserCodeError(f'{path.name} has no function "{name}"')
    return found  # type: ignore[no-any-return]


def located(path: Path) -> Path:
    """Where the file is: there, or, where it was shipped to, its copy."""
    if path.exists() or (shipped := importlib.util.find_spec(SHIPPED)) is None:
        return path
    inside = Path(os.path.abspath(path)).relative_to("/")
    copies = (Path(folder, inside) for folder in shipped.submodule_search_locations or ())
    return next((copy for copy in copies if copy.exists()), path)


def _module(path: Path) -> ModuleType:
    with _LOADING:
        return _loaded(path)


def _loaded(path: Path) -> ModuleType:
    # Two files of one name in different folders are two modules.
    digest = sha256(str(path.resolve()).encode()).hexdigest()[:8]
    name = f"headrace_user_{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserCodeError(f"{path.name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise UserCodeError(f"{where(error, path)}: {said(error)}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def said(error: BaseException) -> str:
    """An exception in a line.

    >>> said(ValueError("no such card"))
    'ValueError: no such card'
    """
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def row_said(row: Mapping[str, object]) -> str:
    """A row as it is shown where it failed: long values shortened, times as they are written.

    >>> from datetime import UTC
    >>> row_said({"id": 3, "name": "n3", "at": datetime(2026, 1, 31, 8, tzinfo=UTC), "to": None})
    "{'id': 3, 'name': 'n3', 'at': 2026-01-31T08:00:00Z, 'to': None}"
    """
    return f"{{{', '.join(f'{name!r}: {_value_said(value)}' for name, value in row.items())}}}"


def _value_said(value: object) -> str:
    match value:
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
    text = repr(value)
    return text if len(text) <= LONG else f"{text[:LONG]}..."


def where(error: BaseException, path: Path) -> str:
    """The last place in the user's file that the exception passed, as `file.py:12`."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f"{Path(error.filename or path).name}:{error.lineno}"
    # A loaded file's code names it by its absolute path.
    loaded = os.path.abspath(located(path))
    lines = [
        line
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == loaded
    ]
    return f"{path.name}:{lines[-1]}" if lines else path.name
