"""User code: functions and classes, loaded only from the file that the pipeline names.

The file's folder is on the import path while the file is loaded, so that it may import its
neighbours. Errors in user code are reported with the user's file, line and row, never with frames
of headrace.

On another machine, in a Spark executor, the folder may be missing. A copy of the file is then on
the import path, below `headrace_shipped`, under the file's original absolute path.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from headrace.core.errors.interrupts import is_interrupt_raised
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

SHIPPED_PACKAGE = "headrace_shipped"

MODULE_PREFIX = "headrace_user_"
"""The prefix of the names of loaded files."""

_LOAD_LOCK = threading.RLock()
"""Serialises loading: a file is loaded once, and the import path is shared."""

_NEIGHBOURS: set[str] = set()
"""The modules in the folders of loaded files that these files have imported."""

MAX_VALUE_LENGTH = 200
"""The number of characters shown of a value."""


class UserCodeError(Exception):
    """User code failed or does not match the pipeline: the error, and its line in the file."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def get_polars_errors() -> tuple[type[BaseException], ...]:
    """Return the exceptions of Polars for values that are not of a type or that Python lacks."""
    import polars as pl

    # It panics at decimals that are not numbers, and raises RuntimeError for too large ones.
    known = (TypeError, ValueError, OverflowError, RuntimeError)
    return (*known, pl.exceptions.PolarsError, pl.exceptions.PanicException)


def is_value_of(value: object, type: pl.DataType) -> bool:
    """Whether Polars accepts a value as one of the type."""
    import polars as pl

    try:
        pl.Series("one", [value], dtype=type, strict=True)
    except get_polars_errors():
        return False
    return True


@dataclass(frozen=True, slots=True)
class UserCode:
    """A user's function or class, such as `w.py:P99`, in the folder of the pipeline."""

    folder: Path
    file: str
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.name}"

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.folder / self.file

    @property
    def display_name(self) -> str:
        """The name used in messages."""
        return f"{self.path.name}:{self.name}"

    def load(self) -> Callable[..., Any]:
        """Load the function or class from its file, which is executed once per process."""
        return load_function(self.path, self.name)

    def format_error(self, error: BaseException) -> str:
        """Format an exception raised in this code."""
        return f"{locate_error(error, self.path)}: {format_error(error)}"


@lru_cache(maxsize=256)
def get_instance(code: UserCode) -> Any:
    """Return the only instance of a user's class in this process."""
    kind = code.load()
    try:
        return kind()
    except BaseException as error:
        reraise_interrupt(error)
        raise UserCodeError(f"{code.format_error(error)} (making a {code.name})") from error


def forget_modules() -> None:
    """Forget the files that were loaded: each is executed again when it is needed next.

    So are the neighbours that they import.
    """
    get_instance.cache_clear()
    for name in [name for name in sys.modules if name.startswith(MODULE_PREFIX)]:
        del sys.modules[name]
    for name in _NEIGHBOURS:
        sys.modules.pop(name, None)
    _NEIGHBOURS.clear()
    importlib.invalidate_caches()


def has_loaded_files() -> bool:
    """Whether files of the user are loaded in this process."""
    return any(name.startswith(MODULE_PREFIX) for name in sys.modules)


def load_function(path: Path, name: str) -> Callable[..., Any]:
    """Load the function of that name from the file."""
    module = _load_module(locate_file(path))
    found = getattr(module, name, None)
    if not callable(found):
        raise UserCodeError(f'{path.name} has no function "{name}"')
    return found  # type: ignore[no-any-return]


def locate_file(path: Path) -> Path:
    """Return the path of the file, or of its shipped copy if the file is missing here."""
    if path.exists() or (shipped := importlib.util.find_spec(SHIPPED_PACKAGE)) is None:
        return path
    inside = Path(os.path.abspath(path)).relative_to("/")
    copies = (Path(folder, inside) for folder in shipped.submodule_search_locations or ())
    return next((copy for copy in copies if copy.exists()), path)


def _load_module(path: Path) -> ModuleType:
    with _LOAD_LOCK:
        return _import_file(path)


def _import_file(path: Path) -> ModuleType:
    # Two files of one name in different folders are two modules.
    digest = sha256(str(path.resolve()).encode()).hexdigest()[:8]
    name = f"{MODULE_PREFIX}{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserCodeError(f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    before = set(sys.modules)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        reraise_interrupt(error)
        raise UserCodeError(f"{locate_error(error, path)}: {format_error(error)}") from error
    finally:
        sys.path.remove(str(path.parent))
        _NEIGHBOURS.update(n for n in sys.modules.keys() - before if _is_below(n, path.parent))
    return module


def _is_below(module: str, folder: Path) -> bool:
    """Whether a module is a file of the user in a folder, and not of a package installed there."""
    file = getattr(sys.modules[module], "__file__", None)
    if file is None or module.startswith(MODULE_PREFIX):
        return False
    path = Path(os.path.abspath(file))
    return path.is_relative_to(os.path.abspath(folder)) and "site-packages" not in path.parts


def reraise_interrupt(error: BaseException) -> None:
    """Let Python's own KeyboardInterrupt pass; one that user code raises is an error as any other.

    A run handles SIGINT by other means than exceptions.
    """
    if isinstance(error, KeyboardInterrupt) and is_interrupt_raised():
        raise error


def format_error(error: BaseException) -> str:
    """Format an exception in one line, whatever its class does.

    >>> format_error(ValueError("no such card"))
    'ValueError: no such card'
    >>> format_error(ExceptionGroup("two cards", [ValueError("no such card"), KeyError("pin")]))
    'ExceptionGroup: two cards (2 sub-exceptions), the first is ValueError: no such card'
    """
    lines = get_text(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    if isinstance(error, BaseExceptionGroup):
        return f"{text}, the first is {format_error(error.exceptions[0])}"
    return text


def get_text(value: object, render: Callable[[Any], str] = str) -> str:
    """Return the text of a value, or what its class raises instead of making it.

    >>> class Card:
    ...     def __repr__(self) -> str:
    ...         raise ValueError("no such card")
    >>> get_text(Card(), repr)
    '(no text: its class raises ValueError)'
    """
    try:
        return render(value)
    except BaseException as error:
        reraise_interrupt(error)
        return f"(no text: its class raises {type(error).__name__})"


def format_row(row: Mapping[str, object]) -> str:
    """Format a row for a message: long values shortened, times in ISO format.

    >>> from datetime import UTC
    >>> format_row({"id": 3, "name": "n3", "at": datetime(2026, 1, 31, 8, tzinfo=UTC), "to": None})
    "{'id': 3, 'name': 'n3', 'at': 2026-01-31T08:00:00Z, 'to': None}"
    """
    return f"{{{', '.join(f'{name!r}: {format_value(value)}' for name, value in row.items())}}}"


def format_value(value: object) -> str:
    """Format a value for a message: a long one shortened, a time in ISO format."""
    match value:
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
    text = get_text(value, repr)
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}..."


def locate_error(error: BaseException, path: Path) -> str:
    """Return the innermost line of the user's file in the traceback, as `file.py:12`."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f"{Path(error.filename or path).name}:{error.lineno}"
    # A loaded file's code names it by its absolute path.
    loaded = os.path.abspath(locate_file(path))
    lines = [
        line
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == loaded
    ]
    return f"{path.name}:{lines[-1]}" if lines else path.name
