"""The frames that `on_rows` emits, validated against the declared outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.core.types import Schema, to_polars

if TYPE_CHECKING:
    import polars as pl


class FrameCollector:
    """A collector of the frames that `on_rows` emits, with the input rows they belong to."""

    def __init__(self, outputs: Mapping[str, Schema]) -> None:
        """`outputs` are by name; the step's own output is named ""."""
        self._rows = 0
        self.frames: list[tuple[str, pl.DataFrame, pl.Series]] = []
        self.out: Any = self._build_emit("", outputs[""])
        for name, schema in outputs.items():
            if name:
                setattr(self.out, name, self._build_emit(name, schema))

    def start_batch(self, rows: int) -> None:
        """Start a batch of this many rows."""
        self._rows, self.frames = rows, []

    def _build_emit(self, name: str, schema: Schema) -> Callable[..., None]:
        shown = f"out.{name}" if name else "out"

        def emit(frame: pl.DataFrame, of: pl.Series | None = None) -> None:
            declared = _validate_frame(shown, schema, frame)
            self.frames.append(
                (name, declared, _resolve_origins(shown, declared.height, of, self._rows))
            )

        emit.__name__ = emit.__qualname__ = shown
        return emit


def _validate_frame(shown: str, schema: Schema, frame: object) -> pl.DataFrame:
    """Return the frame with the declared columns, in their order."""
    import polars as pl

    if not isinstance(frame, pl.DataFrame):
        raise TypeError(f"{shown}: wanted a polars DataFrame, got {type(frame).__name__}")
    if set(frame.columns) != set(schema.names):
        came = ", ".join(frame.columns) or "none"
        raise ValueError(f"{shown}: wanted the columns {', '.join(schema.names)}, got {came}")
    for field in schema:
        wanted, came_as = to_polars(field.type), frame.schema[field.name]
        if came_as not in (wanted, pl.Null):
            message = f'{shown}: column "{field.name}" is declared {field.type} ({wanted})'
            raise TypeError(f"{message}, but has type {came_as}")
        if not field.nullable and frame[field.name].null_count():
            message = f'{shown}: column "{field.name}" is declared not null, but has nulls'
            raise ValueError(message)
    return frame.select(pl.col(field.name).cast(to_polars(field.type)) for field in schema)


def _resolve_origins(shown: str, height: int, of: object, rows: int) -> pl.Series:
    """Return the number of the input row that each emitted row belongs to."""
    import polars as pl

    if of is None:
        if height != rows:
            message = f"{shown}: got {rows} rows and emitted {height}: say which row each is of"
            raise ValueError(f"{message}, as in {shown}(frame, of=numbers)")
        return pl.int_range(rows, dtype=pl.UInt32, eager=True)
    if not isinstance(of, pl.Series):
        raise TypeError(f"{shown}: of must be a Series, got {type(of).__name__}")
    if of.dtype == pl.Boolean:
        if len(of) != rows:
            raise ValueError(f"{shown}: of has {len(of)} values for {rows} rows")
        of = of.fill_null(False).arg_true()
    if len(of) != height:
        raise ValueError(f"{shown}: of names {len(of)} rows for {height} emitted rows")
    among = (of >= 0) & (of < rows)
    if not among.fill_null(False).all():
        raise ValueError(f"{shown}: of must be numbers from 0 to {rows - 1}")
    if not of.is_sorted():
        raise ValueError(f"{shown}: of must be in ascending order: sort the rows by it")
    return of.cast(pl.UInt32)
