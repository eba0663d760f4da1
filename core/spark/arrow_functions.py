"""headrace's functions over partitions in Spark's executors: frames in, frames out.

A function may have several outputs with different columns. They leave an executor as rows of one
schema: the number of the output, and a struct for each output; all structs but that one are null.
Spark passes an executor's Python exception on as text. So a failure is encoded in that text, and
decoded from it by the driver.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeAlias

import orjson

from headrace.core.api.failures import build_failure
from headrace.core.api.splits import Failure
from headrace.core.spark.columns import Columns, format_ddl, quote_column
from headrace.core.types.data_types import to_polars
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame


_FAILURE_PREFIX = "headrace failed: "


_FAILURE_PATTERN = re.compile(re.escape(_FAILURE_PREFIX) + r"(\{.*\})")


class ExecutorFailure(Exception):
    """A failure in an executor, encoded in the exception's text."""

    def __init__(self, failed: Failure) -> None:
        super().__init__(_FAILURE_PREFIX + orjson.dumps(asdict(failed)).decode())


@contextmanager
def encode_failures(part: str) -> Iterator[None]:
    """Raise exceptions inside the `with` as failures: of this part, unless they name another."""
    try:
        yield
    except Exception as error:
        raise ExecutorFailure(build_failure(error, part)) from None


def decode_failure(error: BaseException) -> Failure | None:
    """Decode an executor's failure from an exception of Spark, if there is one."""
    found = _FAILURE_PATTERN.search(str(error))
    return Failure(**orjson.loads(found[1])) if found else None


PartitionFunction: TypeAlias = (
    "Callable[[int, Iterator[pl.DataFrame]], Iterator[tuple[int, pl.DataFrame]]]"
)
"""A function from a partition's number and frames to frames, each with its output's number."""


OUTPUT_COLUMN = "__output"


RESERVED_CHARACTERS = frozenset(".`*")
"""Characters that pyspark cannot look up in a column's name."""


def map_partitions(
    rows: DataFrame, part: str, work: PartitionFunction, outputs: Sequence[Columns]
) -> list[DataFrame]:
    """Apply the function of a part to rows; return its outputs, which share one computation."""
    names = tuple(rows.columns)
    if any(RESERVED_CHARACTERS.intersection(name) for name in names):
        rows = rows.toDF(*(f"c{at}" for at in range(len(names))))
    if len(outputs) == 1:
        return [
            rows.mapInArrow(
                _SingleOutput(part, work, names, tuple(outputs)), format_ddl(outputs[0])
            )
        ]
    structs = (f"o{at} struct<{_format_fields(each)}>" for at, each in enumerate(outputs))
    inside = _MultipleOutputs(part, work, names, tuple(outputs))
    packed = rows.mapInArrow(inside, f"{OUTPUT_COLUMN} int, {', '.join(structs)}").persist()
    return [
        packed.where(f"{OUTPUT_COLUMN} = {at}").select(f"o{at}.*") for at in range(len(outputs))
    ]


def _format_fields(columns: Columns) -> str:
    return ", ".join(f"{quote_column(name)}: {type}" for name, type in columns.items())


@dataclass(frozen=True)
class _ArrowFunction:
    """The function that an executor is sent, over Arrow batches."""

    part: str
    work: PartitionFunction
    names: tuple[str, ...]
    """The names of the input columns."""
    outputs: tuple[Columns, ...]

    @property
    def __name__(self) -> str:
        """The name that Spark shows in its plans."""
        return self.part

    def _run_function(
        self, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        return self.work(partition, map(self._to_frame, batches))

    def _to_frame(self, batch: pa.RecordBatch) -> pl.DataFrame:
        import polars as pl

        frame = pl.from_arrow(batch)
        assert isinstance(frame, pl.DataFrame)
        frame.columns = self.names
        return frame

    def _to_batches(self, frame: pl.DataFrame) -> Iterator[pa.RecordBatch]:
        table = frame.to_arrow()
        if any(map(_has_arrays, self.outputs)):
            table = table.cast(_use_small_lists(table.schema))
        yield from table.to_batches()

    def _cast_columns(self, output: int, frame: pl.DataFrame) -> pl.DataFrame:
        """Select the declared columns in their order, cast to exactly their types."""
        types = {name: to_polars(type) for name, type in self.outputs[output].items()}
        return frame[list(types)].cast(types)  # type: ignore[arg-type]


class _SingleOutput(_ArrowFunction):
    """A function with a single output."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of a partition to batches."""
        with encode_failures(self.part):
            for _, frame in self._run_function(batches):
                yield from self._to_batches(self._cast_columns(0, frame))


class _MultipleOutputs(_ArrowFunction):
    """A function with several outputs, each in its struct."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of a partition to batches."""
        import polars as pl

        types = [pl.Struct({n: to_polars(t) for n, t in each.items()}) for each in self.outputs]
        nothing = [pl.lit(None, dtype=type).alias(f"o{at}") for at, type in enumerate(types)]
        with encode_failures(self.part):
            for output, frame in self._run_function(batches):
                rows = self._cast_columns(output, frame).to_struct(f"o{output}").to_frame()
                others = [*nothing[:output], pl.col(f"o{output}"), *nothing[output + 1 :]]
                number = pl.lit(output, dtype=pl.Int32).alias(OUTPUT_COLUMN)
                yield from self._to_batches(rows.select(number, *others))


def _has_arrays(columns: Columns) -> bool:
    """Whether there are arrays or maps among the columns, or nested in them."""
    return any("array<" in str(type) or "map<" in str(type) for type in columns.values())


def _use_small_lists(schema: pa.Schema) -> pa.Schema:
    """Return the schema with Arrow's small lists, which Spark requires."""
    import pyarrow as pa

    return pa.schema([pa.field(field.name, _small_type(field.type)) for field in schema])


def _small_type(type: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_large_list(type):
        return pa.list_(_small_type(type.value_type))
    if pa.types.is_map(type):
        return pa.map_(_small_type(type.key_type), _small_type(type.item_type))
    if pa.types.is_struct(type):
        return pa.struct([pa.field(field.name, _small_type(field.type)) for field in type])
    return pa.large_string() if pa.types.is_string_view(type) else type
