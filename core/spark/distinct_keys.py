"""The check that no two rows of a full join have the same key (`core/operators/indistinct_rows`).

Only full joins may have such rows, so only what follows them is checked: rows that are written by
key are shuffled by it once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.api.failures import build_failure
from headrace.core.operators.indistinct_rows import IndistinctRows
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import ChangelogMatch, TableMatch
from headrace.core.spark.arrow_functions import ExecutorFailure
from headrace.core.spark.columns import quote_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COPIES = "__copies"


def may_repeat_keys(join: nodes.Join) -> bool:
    """Whether rows without a match of both sides may have the same key, one of nulls."""
    return join.type == "full" and isinstance(join.matching, ChangelogMatch | TableMatch)


def check_distinct_keys(rows: DataFrame, key: Sequence[str], part: str) -> DataFrame:
    """Return the rows; computing them fails in this part if two have the same key."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    failure = str(ExecutorFailure(build_failure(IndistinctRows(), part)))
    copies = f.count(f.lit(1)).over(Window.partitionBy(*map(quote_column, key)))
    is_alone = f.when(f.col(_COPIES) > 1, f.raise_error(f.lit(failure)).cast("boolean"))
    return rows.withColumn(_COPIES, copies).where(is_alone.otherwise(f.lit(True))).drop(_COPIES)
