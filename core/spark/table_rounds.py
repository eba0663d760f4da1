"""Loops over tables in a batch: each round computes a table, or replaces rows of one by their key.

A round takes few queries of Spark: one that computes its rows, and one that says whether it was
the last. Where rows are compared with those of the round before, they are joined with them once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.operators.table_rounds import make_repeated_key_error
from headrace.core.plan import nodes
from headrace.core.spark.columns import quote_column
from headrace.core.spark.loop_checkpoints import LoopCheckpoints, StoredRound
from headrace.core.spark.loops import ROWS, LoopRounds, count_partitions
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

SOLUTION, WORKSET = "solution", "workset"
BEFORE, IS_CHANGED = "__before", "__is_changed"
"""The columns of a row with the row of the same key in the solution, and whether they differ."""
BROADCAST_ROWS = 50_000
"""The most keys that are sent to all executors rather than shuffled with the solution."""


@dataclass(slots=True)
class TableRoundsLoop(LoopRounds):
    """The rounds of a loop over a table."""

    has_null_keys: bool = False
    """Whether a row of the rounds so far may have a key with a null."""

    @property
    def table(self) -> nodes.TableRounds:
        """The rounds as the plan has them."""
        assert self.loop.table is not None
        return self.loop.table

    @property
    def _names(self) -> Sequence[str]:
        return self.head.outputs[0].schema.names

    def _list_comparable(self, prefix: str = "") -> list[str]:
        """Return an expression for each column that Spark can compare: it compares no maps."""
        texts = []
        for column in self.head.outputs[0].schema:
            text = f"{prefix}{quote_column(column.name)}"
            texts.append(f"to_json(struct({text}))" if "map<" in str(column.type) else text)
        return texts

    def _select_rows(self, stream: str) -> DataFrame:
        """Return the rows of a stream with the columns of the loop alone."""
        return self.streams[stream].frame.select(*map(quote_column, self._names))

    def _join_before(self, rows: DataFrame, before: DataFrame, column: str) -> DataFrame:
        """Return rows with the row of the same key of another table as a struct; null: none."""
        from pyspark.sql.functions import col, struct

        fields = [col(quote_column(name)) for name in self._names]
        keys = [col(quote_column(name)).alias(f"__{name}") for name in self.table.key]
        found = before.select(*keys, struct(*fields).alias(column))
        return rows.join(found, self._compare_keys(rows, found), "left").select(*fields, column)

    def _compare_keys(self, rows: DataFrame, others: DataFrame) -> list[Column]:
        """Return the conditions of a join with rows whose key has other names.

        Null is a key too. Without such a key the join is one by `=`, for which Spark need not
        shuffle rows again that are partitioned by the key.
        """
        pairs = [(rows[quote_column(n)], others[quote_column(f"__{n}")]) for n in self.table.key]
        if self.has_null_keys:
            return [one.eqNullSafe(other) for one, other in pairs]
        return [one == other for one, other in pairs]

    @property
    def _null_key_text(self) -> str:
        """An expression for whether some row has a key with a null."""
        columns = map(quote_column, self.table.key)
        tests = " or ".join(f"{column} is null" for column in columns) or "false"
        return f"coalesce(bool_or({tests}), false) as has_null_keys"


@dataclass(slots=True)
class BulkRounds(TableRoundsLoop):
    """The rounds of `iterate` with `bulk`."""

    def run(self, entered: DataFrame, checkpoints: LoopCheckpoints) -> None:
        """Run the rounds, and add the outputs of the head."""
        spark, name = entered.sparkSession, self.head.name
        stored, number = checkpoints.restore(name), 0
        if stored is not None:
            number, rows = stored.number, stored.tables[ROWS]
        else:
            rows = entered.select(*map(quote_column, self._names)).localCheckpoint()
        self._store_outside()
        digest, is_distinct, is_over = self._compute_digest(rows), False, False
        while number < self.table.count and not is_over:
            number += 1
            with self._run_round(spark, number):
                self._store(nodes.name_loop_stream(name), rows)
                self._build_body()
                before, rows = rows, self._compute(self._select_rows(self.loop.feedback))
                digest_before, (digest, is_over) = digest, self._look_at(rows, before, is_distinct)
                is_over |= digest == digest_before and self._is_same(rows, before)
                is_distinct = self._makes_distinct_keys()
            if not is_over and number < self.table.count:
                checkpoints.store(name, StoredRound(number, {ROWS: rows}))
        self._store(name, rows)

    def explain(self, entered: DataFrame) -> None:
        """Add the outputs of the head after one round, without running it."""
        names = map(quote_column, self._names)
        self._store(nodes.name_loop_stream(self.head.name), entered.select(*names))
        self._build_body()
        self._store(self.head.name, self._select_rows(self.loop.feedback))

    def _compute_digest(self, rows: DataFrame) -> object:
        found = _query(rows, self._digest_text, self._null_key_text)
        self.has_null_keys |= found["has_null_keys"]
        return found["digest"]

    @property
    def _digest_text(self) -> str:
        """An expression that differs for tables with different rows, but for a rare chance."""
        columns = ", ".join(self._list_comparable())
        return f"struct(count(*), sum(xxhash64({columns}))) as digest"

    def _look_at(
        self, rows: DataFrame, before: DataFrame, is_distinct: bool
    ) -> tuple[object, bool]:
        """Return the digest of a round, and whether `until` holds.

        `is_distinct`: the keys of the round before are known to be.
        """
        if self.table.until is None:
            return self._compute_digest(rows), False
        if self.table.key:
            before = before if is_distinct else before.dropDuplicates([*self.table.key])
            rows = self._join_before(rows, before, nodes.BEFORE_COLUMN)
        texts = self._digest_text, self._null_key_text, f"({self.loop.text}) as done"
        found = _query(rows, *texts)
        self.has_null_keys |= found["has_null_keys"]
        return found["digest"], found["done"] is True

    def _is_same(self, rows: DataFrame, others: DataFrame) -> bool:
        """Whether two tables have the same rows."""
        one, other = (each.selectExpr(*self._list_comparable()) for each in (rows, others))
        return one.exceptAll(other).isEmpty() and other.exceptAll(one).isEmpty()

    def _makes_distinct_keys(self) -> bool:
        """Whether the steps inside make one row of each key."""
        conversions = [
            operation
            for step in self.body.values()
            for operation in step.operations
            if any(stream.name == self.loop.feedback for stream in step.outputs)
            and isinstance(operation, nodes.ChangelogConversion)
        ]
        return any({c.name for c in each.key} <= {*self.table.key} for each in conversions)


@dataclass(slots=True)
class DeltaRounds(TableRoundsLoop):
    """The rounds of `iterate` with `delta`."""

    @property
    def _delta(self) -> nodes.DeltaInputs:
        assert self.table.delta is not None
        return self.table.delta

    def run(self, entered: DataFrame, checkpoints: LoopCheckpoints) -> None:
        """Run the rounds, and add the outputs of the head."""
        spark, name = entered.sparkSession, self.head.name
        workset_stream, solution_stream = self.loop.list_inner_streams(name)
        stored, number = checkpoints.restore(name), 0
        if stored is not None:
            number, tables = stored.number, stored.tables
            solution, workset = tables[SOLUTION], tables[WORKSET]
        else:
            solution = self._select_rows(self._delta.solution).localCheckpoint()
            workset = self._select_rows(self._delta.workset).localCheckpoint()
            self._check_keys(solution, self._delta.solution, 1)
        self.has_null_keys = bool(_query(solution, self._null_key_text)["has_null_keys"])
        self._store_outside()
        while number < self.table.count:
            number += 1
            with self._run_round(spark, number):
                self._store(workset_stream, workset)
                self._store(solution_stream, solution)
                self._build_body()
                rows = self._compute(self._compare(solution))
                count = self._count_changes(rows, number)
                if not count:
                    break
                changed = rows.where(IS_CHANGED)
                workset = changed.select(*map(quote_column, self._names))
                solution = self._replace(solution, workset, count)
                if self._is_until(changed) or number == self.table.count:
                    break
            tables = {SOLUTION: solution, WORKSET: workset}
            checkpoints.store(name, StoredRound(number, tables))
        self._store(name, solution)

    def explain(self, entered: DataFrame) -> None:
        """Add the outputs of the head after one round, without running it."""
        inner = self.loop.list_inner_streams(self.head.name)
        for stream, table in zip(inner, (self._delta.workset, self._delta.solution), strict=True):
            self._store(stream, self._select_rows(table))
        self._build_body()
        self._store(self.head.name, self._select_rows(self.loop.feedback))

    def _compare(self, solution: DataFrame) -> DataFrame:
        """Return the rows of a round, each with that of the solution, and whether they differ."""
        from pyspark.sql.functions import expr

        pairs = zip(self._list_comparable(), self._list_comparable(f"{BEFORE}."), strict=True)
        same = " and ".join(f"{one} <=> {other}" for one, other in pairs)
        rows = self._join_before(self._select_rows(self.loop.feedback), solution, BEFORE)
        return rows.withColumn(IS_CHANGED, expr(f"{BEFORE} is null or not ({same})"))

    def _count_changes(self, rows: DataFrame, number: int) -> int:
        """Return how many rows differ. Raises ConnectorError if two have the same key."""
        key = ", ".join(map(quote_column, self.table.key))
        counts = _query(
            rows,
            "count(*) as total",
            f"count(distinct struct({key})) as keys",
            f"count_if({IS_CHANGED}) as changed",
            self._null_key_text,
        )
        self.has_null_keys |= counts["has_null_keys"]
        if counts["keys"] < counts["total"]:
            self._check_keys(rows, self.loop.feedback, number)
        return int(counts["changed"])

    def _replace(self, solution: DataFrame, workset: DataFrame, count: int) -> DataFrame:
        """Return the solution with the rows of the work set in place of those of their keys."""
        from pyspark.sql.functions import broadcast, col

        keys = workset.select(*(col(quote_column(n)).alias(f"__{n}") for n in self.table.key))
        keys = broadcast(keys) if count <= BROADCAST_ROWS else keys
        others = solution.join(keys, self._compare_keys(solution, keys), "anti")
        united = others.unionByName(workset)
        return united.coalesce(count_partitions(united)).localCheckpoint()

    def _is_until(self, changed: DataFrame) -> bool:
        """Whether `until` holds for the rows that a round has changed."""
        if self.table.until is None:
            return False
        rows = changed.withColumnRenamed(BEFORE, nodes.BEFORE_COLUMN)
        return _query(rows, f"({self.loop.text}) as done")["done"] is True

    def _check_keys(self, rows: DataFrame, stream: str, number: int) -> None:
        """Raise ConnectorError if two rows have the same key."""
        from pyspark.sql.functions import expr

        key = self.table.key
        counted = rows.groupBy(*map(quote_column, key)).agg(expr("count(*)").alias("__rows"))
        repeated = counted.where("__rows > 1").drop("__rows").first()
        if repeated is not None:
            values = dict(zip(key, repeated, strict=True))
            with attribute_errors_to(self.head.name):
                raise make_repeated_key_error(stream, number, values)


def _query(rows: DataFrame, *expressions: str) -> Row:
    """Return the values of aggregates over all rows."""
    found = rows.selectExpr(*expressions).first()
    assert found is not None
    return found
