"""Loops over tables in a batch: each round computes a table, or replaces rows of one by their key.

A round takes few queries of Spark: one that computes its rows, and one that says whether it was
the last. Where rows are compared with those of the round before, they are joined with them once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.errors.attribution import attribute_errors_to
from headrace.core.operators.table_rounds import find_table_before, make_repeated_key_error
from headrace.core.plan import nodes
from headrace.core.spark.columns import quote_column
from headrace.core.spark.loop_checkpoints import LoopCheckpoints
from headrace.core.spark.loops import (
    BROADCAST_ROWS,
    ROWS,
    LoopRounds,
    count_partitions,
    is_planned_once,
    store_by_key,
    store_rows,
)
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

SOLUTION, WORKSET = "solution", "workset"
BEFORE, CHANGES = "__before", "__changes"
"""The columns of a row with the row of the same key in the solution, and with the number of rows
that the solution gains and loses by it."""


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

    def _count_by_row(self, before: str) -> str:
        """Return an expression for the number of rows that a row adds and removes.

        `before` is the struct with the row that it replaces; null: there is none.
        """
        pairs = zip(self._list_comparable(), self._list_comparable(f"{before}."), strict=True)
        same = " and ".join(f"{one} <=> {other}" for one, other in pairs)
        return f"case when {before} is null then 1 when {same} then 0 else 2 end"

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

    @property
    def _null_key_text(self) -> str:
        """An expression for whether some row has a key with a null."""
        columns = map(quote_column, self.table.key)
        tests = " or ".join(f"{column} is null" for column in columns) or "false"
        return f"coalesce(bool_or({tests}), false) as has_null_keys"


@dataclass(slots=True)
class BulkRounds(TableRoundsLoop):
    """The rounds of `iterate` with `bulk`."""

    _total: int = 0
    """The number of rows of the round before, if they have a key."""

    def run(self, entered: DataFrame, checkpoints: LoopCheckpoints) -> None:
        """Run the rounds, and add the outputs of the head."""
        spark, name = entered.sparkSession, self.head.name
        stored, number = checkpoints.restore(name), 0
        self._restore_metrics(stored)
        if stored is not None:
            number, rows = stored.number, stored.tables[ROWS]
        else:
            rows = entered.select(*map(quote_column, self._names)).localCheckpoint()
        self._store_outside()
        if self.table.key:
            self.has_null_keys = bool(_query(rows, self._null_key_text)["has_null_keys"])
        is_distinct, is_over = False, False
        while number < self.table.count and not is_over:
            number += 1
            self._begin_round(spark, number)
            self._store(nodes.name_loop_stream(name), rows)
            self._build_body()
            before, rows = rows, self._compute(self._select_rows(self.loop.feedback))
            if self.table.until is not None and self.table.key and not is_distinct:
                found = find_table_before(self.head.inputs[0], self.loop, number)
                self._check_keys(before, *found)
            changes, is_until = self._look_at(rows, before, is_distinct)
            self._end_round(number, changes)
            is_distinct, is_over = self._makes_distinct_keys(), is_until or not changes
            if not is_over and number < self.table.count:
                checkpoints.store(name, self._make_stored_round(number, {ROWS: rows}))
        self._store(name, rows)

    def explain(self, entered: DataFrame) -> None:
        """Add the outputs of the head after one round, without running it."""
        names = map(quote_column, self._names)
        self._store(nodes.name_loop_stream(self.head.name), entered.select(*names))
        self._build_body()
        self._store(self.head.name, self._select_rows(self.loop.feedback))

    def _look_at(self, rows: DataFrame, before: DataFrame, is_distinct: bool) -> tuple[int, bool]:
        """Return how many rows a round has added or removed, and whether `until` holds.

        `is_distinct`: the keys of both tables are known to be. Then the join that `until` reads
        also has the changes.
        """
        key = self.table.key
        if self.table.until is None and not key:
            return self._count_changes(rows, before), False
        until = f"({self.loop.text})" if self.table.until is not None else "false"
        texts = [f"{until} as done", "count(*) as total", self._null_key_text]
        joined = rows
        if key and (is_distinct or self.table.until is not None):
            joined = self._join_before(rows, before, nodes.BEFORE_COLUMN)
        if is_distinct:
            changes = f"sum({self._count_by_row(nodes.BEFORE_COLUMN)})"
            texts += [f"coalesce({changes}, 0) as changes", f"count({nodes.BEFORE_COLUMN}) as kept"]
        found = _query(joined, *texts)
        self.has_null_keys |= found["has_null_keys"]
        total_before, self._total = self._total, found["total"]
        if is_distinct:
            return found["changes"] + total_before - found["kept"], found["done"] is True
        return self._count_changes(rows, before), found["done"] is True

    def _count_changes(self, rows: DataFrame, before: DataFrame) -> int:
        """Return how many rows only one of two tables has."""
        from pyspark.sql.functions import expr

        names = [f"c{at}" for at, _ in enumerate(self._names)]
        columns = [f"{text} as {n}" for n, text in zip(names, self._list_comparable(), strict=True)]
        one, other = rows.selectExpr(*columns, "1 as n"), before.selectExpr(*columns, "-1 as n")
        weights = one.union(other).groupBy(*names).agg(expr("abs(sum(n))").alias("n"))
        return int(_query(weights, "coalesce(sum(n), 0) as changes")["changes"])

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
        self._restore_metrics(stored)
        if stored is not None:
            number, tables = stored.number, stored.tables
            solution, workset = tables[SOLUTION], tables[WORKSET]
        else:
            solution = store_by_key(self._select_rows(self._delta.solution), self.table.key)
            workset = store_by_key(self._select_rows(self._delta.workset), self.table.key)
            self._check_keys(solution, self._delta.solution, 1)
        self.has_null_keys = bool(_query(solution, self._null_key_text)["has_null_keys"])
        self._store_outside()
        is_over = False
        while not is_over:
            number += 1
            self._begin_round(spark, number)
            self._store(workset_stream, workset)
            self._store(solution_stream, solution)
            self._build_body()
            rows = self._compute(self._compare(solution))
            count, changes = self._count_changes(rows, number)
            is_over = not count or number == self.table.count
            if count:
                changed = rows.where(f"{CHANGES} > 0")
                workset = changed.select(*map(quote_column, self._names))
                is_added = changes < 2 * count
                solution = self._replace(solution, changed, count, is_added=is_added)
                is_over |= self._is_until(changed)
            self._end_round(number, changes)
            if not is_over:
                tables = {SOLUTION: solution, WORKSET: workset}
                checkpoints.store(name, self._make_stored_round(number, tables))
        self._store(name, solution)

    def explain(self, entered: DataFrame) -> None:
        """Add the outputs of the head after one round, without running it."""
        inner = self.loop.list_inner_streams(self.head.name)
        for stream, table in zip(inner, (self._delta.workset, self._delta.solution), strict=True):
            self._store(stream, self._select_rows(table))
        self._build_body()
        self._store(self.head.name, self._select_rows(self.loop.feedback))

    def _compare(self, solution: DataFrame) -> DataFrame:
        """Return the rows of a round, each with that of the solution and its changes."""
        from pyspark.sql.functions import expr

        rows = self._join_before(self._select_rows(self.loop.feedback), solution, BEFORE)
        return rows.withColumn(CHANGES, expr(self._count_by_row(BEFORE)))

    def _count_changes(self, rows: DataFrame, number: int) -> tuple[int, int]:
        """Return how many rows are another row than before, and the changes by all.

        Raises ConnectorError if two have the same key.
        """
        from pyspark.sql.functions import expr

        # Rows are partitioned by the key after a join by it, so that Spark shuffles nothing here.
        by_key = rows.groupBy(*map(quote_column, self.table.key)).agg(
            expr("count(*)").alias("__rows"),
            expr(f"count_if({CHANGES} > 0)").alias("__changed"),
            expr(f"sum({CHANGES})").alias(CHANGES),
        )
        found = _query(
            by_key,
            "coalesce(max(__rows), 0) as copies",
            "coalesce(sum(__changed), 0) as changed",
            f"coalesce(sum({CHANGES}), 0) as changes",
            self._null_key_text,
        )
        self.has_null_keys |= found["has_null_keys"]
        if found["copies"] > 1:
            self._check_keys(rows, self.loop.feedback, number)
        return int(found["changed"]), int(found["changes"])

    def _replace(
        self, solution: DataFrame, changed: DataFrame, count: int, *, is_added: bool
    ) -> DataFrame:
        """Return the solution with changed rows in place of those of their keys.

        `is_added`: some of them have a key that the solution does not have.
        """
        from pyspark.sql.functions import broadcast

        spark, rows = solution.sparkSession, changed
        if count <= BROADCAST_ROWS and not is_planned_once(spark):
            rows = broadcast(changed)
        joined = self._join_before(solution, rows, BEFORE)
        names, key = [*map(quote_column, self._names)], {*map(quote_column, self.table.key)}
        replaced = (f"if({BEFORE} is null, {name}, {BEFORE}.{name}) as {name}" for name in names)
        pairs = zip(names, replaced, strict=True)
        after = joined.selectExpr(*(name if name in key else new for name, new in pairs))
        if not is_added:
            return store_rows(after)
        after = after.union(changed.where(f"{BEFORE} is null").select(*names))
        if not is_planned_once(spark):
            after = after.coalesce(count_partitions(spark))
        return store_by_key(after, self.table.key)

    def _is_until(self, changed: DataFrame) -> bool:
        """Whether `until` holds for the rows that a round has changed."""
        if self.table.until is None:
            return False
        rows = changed.withColumnRenamed(BEFORE, nodes.BEFORE_COLUMN)
        return _query(rows, f"({self.loop.text}) as done")["done"] is True


def _query(rows: DataFrame, *expressions: str) -> Row:
    """Return the values of aggregates over all rows."""
    found = rows.selectExpr(*expressions).first()
    assert found is not None
    return found
