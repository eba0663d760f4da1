"""The expressions and clauses from which random queries over tables are drawn, and their SQL."""

from __future__ import annotations

from tests.support.reference.random_tables import CODE, RETURNS

SAME = {"k": "k", "s": "s", "v": "v", "x": "x"}
WHERE = ("v > 0", "v is not null", "s is null or x > 0", "k is null or v % 2 = 0", "k <> 2")
SELECT = (
    {"k": "v", "s": "s", "v": "k", "x": "x"},
    {"k": "v % 2", "s": "s", "v": "v", "x": "x"},
    SAME | {"v": "coalesce(v, 0) + 1"},
    SAME | {"s": "s || '!'", "x": "case when isnan(x) then null else x * -1 end"},
    SAME | {"k": "cast(1 as bigint)", "x": "cast(k as double)"},
)
"""Columns of projections: some drop a key, some only change other columns."""
EXPLODE = ("array(v, k)", "case when v > 0 then array(v, 1, v) end", "array(k)")
KEYS: tuple[dict[str, str], ...] = (
    *({"k": "k"}, {"s": "s"}, {"k": "k", "s": "s"}, {"k": "v"}, {"k": "v % 2"}),
    *({"k": "k % 2", "s": "s"}, {"x": "x"}, {}),
)
ROWS = {
    "k": ("max(k)", "count(*)", "min(v)"),
    "s": ("min(s)", "max(s)", "min(s) filter (where v > 0)"),
    "v": (
        *("sum(v)", "count(*)", "count(v)", "count(distinct s)", "min(v)", "max(v)"),
        *("bit_xor(v)", "sum(distinct v)"),
    ),
    "x": ("max(x)", "min(x)", "avg(v)", "avg(v) filter (where k > 0)", "median(v)"),
}
"""Aggregates by their output column."""
HAVING = ("", "", "v > 0", "k is not null", "x <> 1")
RANKINGS = ("v desc, s, x, k", "k, v, s, x", "x desc nulls last, v, k, s", "s, k desc, v, x")
"""Orders in which only equal rows are equal."""
TIED_RANKINGS = ("v desc", "k, v", "x desc nulls last", "s nulls last, v", "v % 2, k desc")
ON = (
    *("a.k = b.k", "a.k = b.k", "a.v = b.k", "a.v = b.v", "a.s = b.s", "a.x = b.x"),
    *("a.k = b.k and a.s = b.s", "a.k = b.k and a.v < b.v", "a.s = b.s and a.k <> b.k"),
    *("a.v = b.v and (a.s is null or b.x > 0)", "a.v % 2 = b.v % 2 and a.k = b.k"),
)
BOTH = (
    {"k": "a.k", "s": "b.s", "v": "b.v", "x": "a.x"},
    {"k": "b.k", "s": "a.s", "v": "a.v", "x": "b.x"},
    {"k": "a.k", "s": "coalesce(a.s, b.s)", "v": "a.v + b.v", "x": "b.x"},
    {"k": "b.v", "s": "b.s", "v": "a.v", "x": "a.x"},
)
LAST_AGGREGATES = {
    "n": "count(*)",
    "c": "count(v)",
    "total": "sum(v)",
    "mean": "avg(v)",
    "least": "min(s)",
    "most": "max(x)",
    "kinds": "count(distinct s)",
    "some": "count(*) filter (where v > 0)",
    "both": "sum(v) + count(*)",
    "bits": "bit_xor(v)",
    "sums": "try_sum(distinct v)",
    "middle": "median(v)",
    "weighed": "percentile(v, 0.25)",
    "every": "bool_and(v > 2)",
    "any": "bool_or(v > 2)",
    "all": "array_sort(collect_list(v))",
    "set": "array_sort(collect_set(s))",
    "sorted": "listagg(s, '-') within group (order by s)",
    "spread": "round(stddev(v), 6)",
    "about": "approx_count_distinct(v)",
    "shares": "percentile_approx(v, array(0.1, 0.9))",
}
DUCKDB = {
    "array(v, k)": "[v, k]",
    "case when v > 0 then array(v, 1, v) end": "case when v > 0 then [v, 1, v] end",
    "array(k)": "[k]",
    "try_sum(distinct v)": "sum(distinct v)",
    "percentile(v, 0.25)": "quantile_cont(v, 0.25)",
    "array_sort(collect_list(v))": "coalesce(list_sort(list(v) filter (where v is not null)), [])",
    "array_sort(collect_set(s))": (
        "coalesce(list_sort(list(distinct s) filter (where s is not null)), [])"
    ),
    "listagg(s, '-') within group (order by s)": "string_agg(s, '-' order by s)",
    # Approximate values are those of this implementation.
    "approx_count_distinct(v)": "null",
    "percentile_approx(v, array(0.1, 0.9))": "null",
}
"""Expressions that DuckDB writes in another way; null if it has no such values."""
CHANGES_READ = (
    f"map: {{python: '{CODE}:signed', mode: row, {RETURNS}}}",
    f"map: {{python: '{CODE}:signed_batch', {RETURNS}}}",
    f"key: s, process: {{python: '{CODE}:Signed', order: arrival, {RETURNS}}}",
)
