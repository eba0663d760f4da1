"""The cell cache of a user class: one table per state, and the cells of keys in memory.

A key is a Python value, or a tuple for several columns. Cells are a write-back cache: the cells of
arriving rows are filled from the tables in bulk, and dirty cells are written back before a
snapshot, or when there are too many of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.api.state import EXPIRY, KEY, KEY_INDEX, KeyedTable, StepState
from headrace.core.api.state_sizes import StateSize
from headrace.core.api.user_code import UserCodeError, get_polars_errors, is_value_of
from headrace.core.operators.process.cell_class import Cell, CellFactory, States
from headrace.core.operators.process.state_values import TtlList, TtlMap, is_nested
from headrace.core.operators.process.user_class import list_values
from headrace.core.process.declarations import Declared, Kind
from headrace.core.types.data_types import quote_name, to_polars
from headrace.core.types.key_groups import encode_keys

if TYPE_CHECKING:
    import polars as pl


CANONICAL_NAN = float("nan")
"""The NaN that replaces every other: a dict finds it only as the identical object."""


class KeyCodec:
    """The key of an operator: its internal columns, and its Python values."""

    def __init__(self, types: Mapping[str, pl.DataType]) -> None:
        self._types = dict(types)
        self._names = list(types)

    def decode(self, frame: pl.DataFrame) -> list[Any]:
        """Return the key of each row."""
        columns = [self._list_values(frame[name]) for name in self._names]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def encode(self, frame: pl.DataFrame) -> pl.Series:
        """Return the encoded key of each row."""
        return encode_keys(frame[self._names])

    def encode_cells(self, cells: Iterable[Any]) -> pl.Series:
        """Return the encoded key of each cell."""
        return self.encode(self.build_columns([cell._id for cell in cells]))

    def build_columns(self, ids: Sequence[Any]) -> pl.DataFrame:
        """Convert Python keys to columns."""
        import polars as pl

        if len(self._names) == 1:
            ((name, type),) = self._types.items()
            return pl.Series(name, ids, dtype=type).to_frame()
        return pl.DataFrame(list(ids), schema=self._types, orient="row")

    def _list_values(self, column: pl.Series) -> list[Any]:
        shown = "the key"
        if len(self._names) > 1:
            shown = f"column {self._names.index(column.name) + 1} of the key"
        found = list_values(column, shown, "cast it to string")
        if column.dtype.is_float() and column.is_nan().any():
            return [CANONICAL_NAN if each != each else each for each in found]
        return found


NOT_STORED = object()
"""The value of a cell that is not stored. A value that has a default can be stored as null."""


VALUE_COLUMN = "value"
"""The column of a table that holds the state."""


MAX_CELLS = 1 << 17
"""The number of cells that may stay in memory between two batches."""


CELL_BYTES = 200
"""The approximate size of a cell, for the reported state sizes."""


class CellCache:
    """The state of all keys."""

    def __init__(
        self, states: States, cells: CellFactory, state: StepState, keys: KeyCodec, name: str
    ) -> None:
        """`name` is the name of the class in messages."""
        self._states = states
        self._state = state
        self._keys = keys
        self._name = name
        self._clean: dict[Any, Cell] = {}
        self._dirty = DirtyCells(cells.create, self._clean)
        self.tables: dict[str, KeyedTable] = {
            name: state.open_table(name, {VALUE_COLUMN: get_column_type(declared)})
            for name, declared in states.items()
        }
        for name in states:
            state.buffered_sizes[name] = self._measure

    def get_cells(self, ids: Iterable[object]) -> list[Cell]:
        """Return the cell of each of these keys."""
        touched = self._dirty
        found = list(map(touched.__getitem__, ids))
        if touched.unfilled:
            made, touched.unfilled = touched.unfilled, []
            self._fill_new(made)
        return found

    def is_full(self) -> bool:
        """Whether the cells in memory are too many and should be evicted."""
        return len(self._dirty) + len(self._clean) > MAX_CELLS

    def expire(self, now_us: int, clock_us: int) -> None:
        """Remove expired rows from the tables, by event time or by the wall clock."""
        for name, declared in self._states.items():
            if declared.ttl_us is not None:
                self.tables[name].expire(now_us if declared.processing else clock_us)

    def find_clock_ttl_us(self) -> int | None:
        """Return the shortest TTL by the wall clock of a non-empty state; None if there is none."""
        ttls = [
            declared.ttl_us
            for name, declared in self._states.items()
            if declared.ttl_us is not None
            and declared.processing
            and (self._dirty or self.tables[name].rows)
        ]
        return min(ttls, default=None)

    def write_back(self) -> None:
        """Write the dirty cells to the tables."""
        if not self._dirty:
            return
        cells = list(self._dirty.values())
        keys = self._keys.encode_cells(cells).alias(KEY)
        for name, declared in self._states.items():
            self._write_state(name, declared, cells, keys)
        self._clean.update(self._dirty)
        self._dirty.clear()

    def evict(self) -> None:
        """Evict all cells; they must have been written back."""
        assert not self._dirty, "dirty cells are written back before"
        self._clean.clear()

    def _fill_new(self, made: list[Cell]) -> None:
        """Fill new cells from the tables."""
        filled = [name for name in self._states if self.tables[name].rows]
        if not filled:
            return
        keys = self._keys.encode_cells(made)
        for name in filled:
            found = self.tables[name].find(keys)
            until = found[EXPIRY].to_list() if EXPIRY in found.columns else None
            of = [made[at] for at in found[KEY_INDEX].to_list()]
            fill_cells(name, self._states[name], of, found, until)

    def _write_state(
        self, name: str, declared: Declared, cells: list[Cell], keys: pl.Series
    ) -> None:
        import polars as pl

        values, until = collect_values(name, declared, cells)
        full = [at for at, value in enumerate(values) if value is not NOT_STORED]
        table = self.tables[name]
        if len(full) < len(cells):
            is_full = pl.Series([value is not NOT_STORED for value in values], dtype=pl.Boolean)
            if table.rows:
                table.remove(keys.filter(~is_full))
            keys = keys.filter(is_full)
        if not full:
            return
        stored_values = [values[at] for at in full]
        column = build_column(self._name, name, declared, stored_values, [cells[at] for at in full])
        frame = pl.DataFrame([keys, column])
        if until is not None:
            untils = pl.Series(EXPIRY, [until[at] for at in full], dtype=pl.Int64)
            frame = frame.with_columns(untils)
        table.put(frame)

    def _measure(self) -> StateSize:
        return StateSize(len(self._dirty), (len(self._dirty) + len(self._clean)) * CELL_BYTES)


class DirtyCells(dict[Any, Cell]):
    """The cells used since the last write-back, by key."""

    def __init__(self, make: Callable[[object], Cell], clean: dict[Any, Cell]) -> None:
        super().__init__()
        self.unfilled: list[Cell] = []
        """New cells, which are not filled yet."""
        self._make = make
        self._clean = clean

    def __missing__(self, id: object) -> Cell:
        cell = self._clean.pop(id, None)
        if cell is None:
            cell = self._make(id)
            self.unfilled.append(cell)
        self[id] = cell
        return cell


def get_column_type(declared: Declared) -> pl.DataType:
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


def build_column(
    of: str, name: str, declared: Declared, values: list[Any], cells: list[Cell]
) -> pl.Series:
    """Convert the values of cells to a column; `of` is the name of the class in messages."""
    import polars as pl

    type = get_column_type(declared)
    if declared.kind is Kind.TIMER:
        return pl.Series(VALUE_COLUMN, values, dtype=pl.Int64).cast(type)
    try:
        return pl.Series(VALUE_COLUMN, values, dtype=type, strict=True)
    except get_polars_errors():
        for value, cell in zip(values, cells, strict=True):
            if not is_value_of(value, type):
                shown = f"{value!r:.200} ({value.__class__.__name__})"
                message = f"{of}: state {quote_name(name)} is a {declared}, and was set to {shown}"
                suffix = "" if declared.shared else f", of the key {cell._id!r}"
                raise UserCodeError(f"{message}{suffix}") from None
        raise


def fill_cells(
    name: str,
    declared: Declared,
    cells: list[Cell],
    stored_rows: pl.DataFrame,
    until: list[int] | None,
) -> None:
    """Fill new cells with the stored values that were found."""
    import polars as pl

    if declared.kind is Kind.TIMER:
        _set_slots(cells, f"_at_{name}", stored_rows[VALUE_COLUMN].cast(pl.Int64).to_list())
        return
    values = list_values(
        stored_rows[VALUE_COLUMN], f"state {quote_name(name)}", "store it as a bigint"
    )
    match declared.kind:
        case Kind.VALUE if declared.ttl_us is not None and until is not None:
            _set_slots(cells, f"_of_{name}", values)
            _set_slots(cells, f"_until_{name}", until)
        case Kind.VALUE:
            _set_slots(cells, f"_of_{name}", values)
        case Kind.LIST:
            for cell, elements in zip(cells, values, strict=True):
                collection = getattr(cell, f"_of_{name}")
                if isinstance(collection, TtlList):
                    collection.entries = [(each["value"], each["until"]) for each in elements]
                else:
                    list.extend(collection, elements)  # they were validated before they were stored
        case Kind.MAP:
            for cell, entries in zip(cells, values, strict=True):
                collection = getattr(cell, f"_of_{name}")
                if isinstance(collection, TtlMap):
                    collection.entries = {e["key"]: (e["value"], e["until"]) for e in entries}
                else:
                    dict.update(collection, ((each["key"], each["value"]) for each in entries))


def _set_slots(cells: Iterable[Cell], slot: str, values: Iterable[object]) -> None:
    for cell, value in zip(cells, values, strict=True):
        setattr(cell, slot, value)


def collect_values(
    name: str, declared: Declared, cells: list[Cell]
) -> tuple[list[Any], list[int | None] | None]:
    """Return the value to store of each cell, or NOT_STORED, and their expiry times, if any."""
    aged = declared.ttl_us is not None
    match declared.kind:
        case Kind.TIMER:
            return [_skip_default(None, getattr(cell, f"_at_{name}")) for cell in cells], None
        case Kind.VALUE if aged:
            values = [_skip_default(None, getattr(cell, f"_of_{name}")) for cell in cells]
            if is_nested(declared.types):  # each cell that was read has its own copy of the default
                values = [_skip_default(declared.default, value) for value in values]
            return values, [getattr(cell, f"_until_{name}") for cell in cells]
        case Kind.VALUE:
            return [
                _skip_default(declared.default, getattr(cell, f"_of_{name}")) for cell in cells
            ], None
    collections = [getattr(cell, f"_of_{name}") for cell in cells]
    return [_list_elements(each) for each in collections], [
        _find_last_expiry(each) for each in collections
    ] if aged else None


def _skip_default(default: object, value: object) -> object:
    """Return the value, or NOT_STORED if it is the default."""
    if value is default or (value == default and type(value) is type(default)):
        return NOT_STORED
    return value


def _list_elements(collection: Any) -> Any:
    """Return the elements of a list, or the entries of a map."""
    match collection:
        case TtlMap():
            pairs = collection.entries.items()
            elements = [{"key": k, "value": value, "until": until} for k, (value, until) in pairs]
        case TtlList():
            elements = [{"value": value, "until": until} for value, until in collection.entries]
        case dict():
            elements = [{"key": key, "value": value} for key, value in collection.items()]
        case _:
            elements = list(collection)
    return elements or NOT_STORED


def _find_last_expiry(collection: TtlList | TtlMap) -> int | None:
    """Return the latest expiry time of the elements."""
    pairs = collection.entries.values() if isinstance(collection, TtlMap) else collection.entries
    return max((until for _, until in pairs), default=None)
