"""The states of a user class: one table per state, and the cells of keys in memory.

Cells are a write-back cache: the cells of arriving rows are filled from the tables in bulk, and
dirty cells are written back before a snapshot, or when there are too many of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from headrace.core.operators.process.aging import AgeingList, AgeingMap
from headrace.core.operators.process.cells import Cell, Cells, States
from headrace.core.operators.process.copies import is_nested
from headrace.core.operators.process.keys import Keys
from headrace.core.operators.process.loaded import listed
from headrace.core.process.declared import Declared, Kind
from headrace.core.sizes import Size
from headrace.core.state import ASKED, KEY, UNTIL, StepState, Table
from headrace.core.types import quoted, to_polars
from headrace.core.user_code import UserCodeError, fits, refusals

if TYPE_CHECKING:
    import polars as pl

NOTHING = object()
"""The value of a cell that is not stored. A value that has a default can be stored as null."""
VALUE = "value"
"""The column of a table that holds the state."""
MOST_CELLS = 1 << 17
"""The number of cells that may stay in memory between two batches."""
CELL_BYTES = 200
"""The approximate size of a cell, for the reported state sizes."""


class Kept:
    """The state of all keys."""

    def __init__(
        self, states: States, cells: Cells, state: StepState, keys: Keys, name: str
    ) -> None:
        """`name` is the name of the class in messages."""
        self._states = states
        self._state = state
        self._keys = keys
        self._name = name
        self._clean: dict[Any, Cell] = {}
        self._dirty = Touched(cells.new, self._clean)
        self.tables: dict[str, Table] = {
            name: state.table(name, {VALUE: column(declared)}) for name, declared in states.items()
        }
        for name in states:
            state.beside[name] = self._beside

    def cells(self, ids: Iterable[object]) -> list[Cell]:
        """Return the cell of each of these keys."""
        touched = self._dirty
        found = list(map(touched.__getitem__, ids))
        if touched.new:
            made, touched.new = touched.new, []
            self._read(made)
        return found

    def is_full(self) -> bool:
        """Whether there are so many cells in memory that they should be evicted."""
        return len(self._dirty) + len(self._clean) > MOST_CELLS

    def forget(self, now_us: int, clock_us: int) -> None:
        """Remove expired rows from the tables, by event time or by the wall clock."""
        for name, declared in self._states.items():
            if declared.ttl_us is not None:
                self.tables[name].forget(now_us if declared.processing else clock_us)

    def by_clock_us(self) -> int | None:
        """Return the shortest TTL by the wall clock of a non-empty state; None if there is none."""
        ttls = [
            declared.ttl_us
            for name, declared in self._states.items()
            if declared.ttl_us is not None
            and declared.processing
            and (self._dirty or self.tables[name].rows)
        ]
        return min(ttls, default=None)

    def put_back(self) -> None:
        """Write the dirty cells to the tables."""
        if not self._dirty:
            return
        cells = list(self._dirty.values())
        keys = self._keys.of(cells).alias(KEY)
        for name, declared in self._states.items():
            self._put(name, declared, cells, keys)
        self._clean.update(self._dirty)
        self._dirty.clear()

    def let_go(self) -> None:
        """Evict all cells; they must have been written back."""
        assert not self._dirty, "dirty cells are written back before"
        self._clean.clear()

    def _read(self, made: list[Cell]) -> None:
        """Fill new cells from the tables."""
        filled = [name for name in self._states if self.tables[name].rows]
        if not filled:
            return
        keys = self._keys.of(made)
        for name in filled:
            found = self.tables[name].find(keys)
            until = found[UNTIL].to_list() if UNTIL in found.columns else None
            of = [made[at] for at in found[ASKED].to_list()]
            fill(name, self._states[name], of, found, until)

    def _put(self, name: str, declared: Declared, cells: list[Cell], keys: pl.Series) -> None:
        import polars as pl

        values, until = written_of(name, declared, cells)
        full = [at for at, value in enumerate(values) if value is not NOTHING]
        table = self.tables[name]
        if len(full) < len(cells):
            is_full = pl.Series([value is not NOTHING for value in values], dtype=pl.Boolean)
            if table.rows:
                table.remove(keys.filter(~is_full))
            keys = keys.filter(is_full)
        if not full:
            return
        kept = [values[at] for at in full]
        column = series(self._name, name, declared, kept, [cells[at] for at in full])
        frame = pl.DataFrame([keys, column])
        if until is not None:
            untils = pl.Series(UNTIL, [until[at] for at in full], dtype=pl.Int64)
            frame = frame.with_columns(untils)
        table.put(frame)

    def _beside(self) -> Size:
        return Size(len(self._dirty), (len(self._dirty) + len(self._clean)) * CELL_BYTES)


class Touched(dict[Any, Cell]):
    """The cells used since the last write-back, by key."""

    def __init__(self, make: Callable[[object], Cell], clean: dict[Any, Cell]) -> None:
        super().__init__()
        self.new: list[Cell] = []
        """New cells, which are not filled yet."""
        self._make = make
        self._clean = clean

    def __missing__(self, id: object) -> Cell:
        cell = self._clean.pop(id, None)
        if cell is None:
            cell = self._make(id)
            self.new.append(cell)
        self[id] = cell
        return cell


def column(declared: Declared) -> pl.DataType:
    """Return the type of the column that holds a state."""
    import polars as pl

    types = [to_polars(type) for type in declared.types]
    until = {} if declared.ttl_us is None else {"until": pl.Int64()}
    match declared.kind:
        case Kind.LIST:
            return pl.List(pl.Struct({"value": types[0], **until}) if until else types[0])
        case Kind.MAP:
            return pl.List(pl.Struct({"key": types[0], "value": types[1], **until}))
    return types[0]


def series(
    of: str, name: str, declared: Declared, values: list[Any], cells: list[Cell]
) -> pl.Series:
    """Convert the values of cells to a column; `of` is the name of the class in messages."""
    import polars as pl

    type = column(declared)
    if declared.kind is Kind.TIMER:
        return pl.Series(VALUE, values, dtype=pl.Int64).cast(type)
    try:
        return pl.Series(VALUE, values, dtype=type, strict=True)
    except refusals():
        for value, cell in zip(values, cells, strict=True):
            if not fits(value, type):
                shown = f"{value!r:.200} ({value.__class__.__name__})"
                message = f"{of}: state {quoted(name)} is a {declared}, and was set to {shown}"
                whose = "" if declared.shared else f", of the key {cell._id!r}"
                raise UserCodeError(f"{message}{whose}") from None
        raise


def fill(
    name: str, declared: Declared, cells: list[Cell], found: pl.DataFrame, until: list[int] | None
) -> None:
    """Fill new cells with the stored values that were found."""
    import polars as pl

    if declared.kind is Kind.TIMER:
        _set(cells, f"_at_{name}", found[VALUE].cast(pl.Int64).to_list())
        return
    values = listed(found[VALUE], f"state {quoted(name)}", "store it as a bigint")
    match declared.kind:
        case Kind.VALUE if declared.ttl_us is not None and until is not None:
            _set(cells, f"_of_{name}", values)
            _set(cells, f"_until_{name}", until)
        case Kind.VALUE:
            _set(cells, f"_of_{name}", values)
        case Kind.LIST:
            for cell, elements in zip(cells, values, strict=True):
                kept = getattr(cell, f"_of_{name}")
                if isinstance(kept, AgeingList):
                    kept.entries = [(each["value"], each["until"]) for each in elements]
                else:
                    list.extend(kept, elements)  # they were validated before they were stored
        case Kind.MAP:
            for cell, entries in zip(cells, values, strict=True):
                kept = getattr(cell, f"_of_{name}")
                if isinstance(kept, AgeingMap):
                    kept.entries = {e["key"]: (e["value"], e["until"]) for e in entries}
                else:
                    dict.update(kept, ((each["key"], each["value"]) for each in entries))


def _set(cells: Iterable[Cell], slot: str, values: Iterable[object]) -> None:
    for cell, value in zip(cells, values, strict=True):
        setattr(cell, slot, value)


def written_of(
    name: str, declared: Declared, cells: list[Cell]
) -> tuple[list[Any], list[int | None] | None]:
    """Return the value to store of each cell, or NOT_STORED, and their expiry times, if any."""
    aged = declared.ttl_us is not None
    match declared.kind:
        case Kind.TIMER:
            return [_unless(None, getattr(cell, f"_at_{name}")) for cell in cells], None
        case Kind.VALUE if aged:
            values = [_unless(None, getattr(cell, f"_of_{name}")) for cell in cells]
            if is_nested(declared.types):  # each cell that was read has its own copy of the default
                values = [_unless(declared.default, value) for value in values]
            return values, [getattr(cell, f"_until_{name}") for cell in cells]
        case Kind.VALUE:
            return [_unless(declared.default, getattr(cell, f"_of_{name}")) for cell in cells], None
    kept = [getattr(cell, f"_of_{name}") for cell in cells]
    return [_elements(each) for each in kept], [_last(each) for each in kept] if aged else None


def _unless(default: object, value: object) -> object:
    """Return the value, or NOT_STORED if it is the default."""
    if value is default or (value == default and type(value) is type(default)):
        return NOTHING
    return value


def _elements(kept: Any) -> Any:
    """Return the elements of a list, or the entries of a map."""
    match kept:
        case AgeingMap():
            pairs = kept.entries.items()
            found = [{"key": k, "value": value, "until": until} for k, (value, until) in pairs]
        case AgeingList():
            found = [{"value": value, "until": until} for value, until in kept.entries]
        case dict():
            found = [{"key": key, "value": value} for key, value in kept.items()]
        case _:
            found = list(kept)
    return found or NOTHING


def _last(kept: AgeingList | AgeingMap) -> int | None:
    """Return the latest expiry time of the elements."""
    pairs = kept.entries.values() if isinstance(kept, AgeingMap) else kept.entries
    return max((until for _, until in pairs), default=None)
