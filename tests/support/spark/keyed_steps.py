"""Random keyed steps over the rows of `keyed_rows`: windows, aggregates, rankings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from headrace.core.types.data_types import (
    BIGINT,
    BOOLEAN,
    Array,
    Decimal,
    MapType,
    Struct,
    is_integer,
    is_numeric,
)
from tests.support.spark.keyed_rows import COLUMNS, EXACT, KEYS

NAMES = [f"`{name}`" if " " in name else name for name in COLUMNS]
TYPES = dict(zip(NAMES, COLUMNS.values(), strict=True))
ORDERED = [name for name in NAMES if not isinstance(TYPES[name], Array | MapType | Struct)]
SUMMED = [n for n in NAMES if is_integer(TYPES[n]) or isinstance(TYPES[n], Decimal) or n in EXACT]
AVERAGED = [name for name in SUMMED if TYPES[name] != BIGINT]
SPREAD = [name for name in EXACT if is_numeric(EXACT[name])]
INTEGERS = [name for name in NAMES if is_integer(TYPES[name])]
PAIRED = ["n3", "n4", "ki"]
"""Numbers that are not large, for sums that may nearly cancel out."""
FINITE = ["if(abs(n3) < 5000, n3, 1.5D)", "ki", "cast(ki as double) / 4"]
"""Numbers that are not infinite: Spark's covariances of those depend on the order of rows."""
CONDITIONS = [name for name in NAMES if TYPES[name] == BOOLEAN]
CONDITIONS += ["ki > 0", "n3 > 0", "s is null or p", "ks = 'a'", "false", "kx = 0"]

CALLS = [
    *("count(*)", "count({any})", "count({any}, {any})", "count(distinct {ordered})"),
    *("count(distinct {ordered}, {ordered})", "count_if({condition})"),
    *("sum({summed})", "sum(distinct {summed})", "avg({averaged})", "avg(distinct {averaged})"),
    *("min({ordered})", "max({ordered})", "min({ordered})", "max({ordered})"),
    *("bool_and({condition})", "bool_or({condition})", "every(p)", "some(q)", "any(p)"),
    *("first({any})", "first({any}, true)", "last({any})", "last({any}, true)"),
    *("any_value({any})", "first_value({any})", "last_value({any}, true)"),
    *("min_by({any}, {ordered})", "max_by({any}, {ordered})", "max_by({any}, kx)"),
    *("collect_list({any})", "array_agg({any})", "collect_set({ordered})", "collect_set(kx)"),
    *("stddev_samp({spread})", "stddev_pop({spread})", "std(ki)", "mean({averaged})"),
    *("var_samp({spread})", "var_pop({spread})", "variance(ki)", "stddev(distinct {spread})"),
    *("bit_and({integer})", "bit_or({integer})", "bit_xor({integer})", "bit_xor(distinct ki)"),
    *("try_sum({summed})", "try_sum(distinct {summed})", "try_avg({averaged})"),
    *("skewness({paired})", "kurtosis({paired})", "skewness(distinct {paired})"),
    *("covar_pop({finite}, ki)", "covar_samp({finite}, {finite})", "corr({finite}, ki)"),
    *("regr_count({summed}, {averaged})", "regr_avgx(n2, {averaged})", "regr_avgy(n1, n3)"),
    *("regr_slope({finite}, ki)", "regr_intercept({finite}, ki)", "regr_r2({finite}, ki)"),
    *("regr_sxx(ki, {finite})", "regr_syy({finite}, ki)", "regr_sxy(ki, {finite})"),
    *("max_by({any}, {ordered}, 3)", "min_by({any}, {ordered}, 2)", "collect_union(array(ki, nr))"),
    *("median({spread})", "percentile({paired}, 0.3)", "percentile(distinct {summed}, 0.9)"),
    *(
        "percentile({spread}, array(0.0, 0.1, 0.7))",
        "percentile(ki, 0.5, nr - 2)",
        "percentile(ki, 0.5, ki * ki)",
    ),
    *("percentile_cont(0.3) within group (order by {paired} desc)", "mode({ordered})"),
    *("percentile_disc(0.7) within group (order by {spread})", "mode(kx)"),
    *("percentile_approx({summed}, 0.5)", "percentile_approx({paired}, array(0.1, 0.9), 50)"),
    *("mode() within group (order by ks desc)", "percentile_approx(distinct at, 0.4)"),
    *(
        "listagg(ks)",
        "listagg(cast(ki as string), '-')",
        "listagg(distinct ks, ',')",
        "string_agg(s, ', ')",
    ),
    *("listagg(ks, '+') within group (order by ks desc)", "listagg(s, ';')"),
    *("listagg(distinct ks) within group (order by ks)",),
    *("collect_list(distinct {ordered})", "max(distinct {ordered})", "count_if(distinct p)"),
]
WHOLES = [
    "{call} is null",
    "coalesce(sum(ki), 0) + count(*)",
    "size({list})",
    "case when count(*) > 2 then max(s) else 'few' end",
    "max(ki) - min(ki) * 2",
    "if(count(p) = 0, -1, sum(ki))",
    "named_struct('n', count(*), 'best', {call})",
    "sum(ki) / count(*)",
    "{call} between {call} and {call}",
]
SIZES = ["250ms", "1s", "2s", "7s", "1m", "1d"]
LISTS = ["collect_list({any})", "collect_set({ordered})"]


def step(random: Random) -> str:
    """The clauses of a step, in braces."""
    kind = random.choice(["aggregate"] * 4 + ["top", "top", "dedup"])
    clauses = {"aggregate": _aggregate, "top": _top, "dedup": _dedup}[kind](random)
    return ", ".join(clause for clause in clauses if clause)


def _aggregate(random: Random) -> Iterator[str]:
    key, named = _key(random)
    yield f"key: {key}"
    yield _window(random)
    texts = {"n": "count(*)"}
    texts |= {f"a{at}": _text(random, named) for at in range(random.randint(3, 12))}
    shown = ", ".join(f'{name}: "{text}"' for name, text in texts.items())
    yield f"aggregate: {{{shown}}}"
    yield random.choice(["", "", "", "having: n > 1", 'having: "n % 2 = 0 or a0 is null"'])


def _top(random: Random) -> Iterator[str]:
    yield f"key: {_key(random, plain=True)[0]}"
    yield _window(random)
    by = ", ".join(dict.fromkeys(_ranking(random) for _ in range(random.randint(1, 3))))
    yield f"top: {{n: {random.randint(1, 4)}, by: [{by}]}}"


def _dedup(random: Random) -> Iterator[str]:
    keep = random.choice(["first", "last"])
    order = random.choice(["arrival", "event_time"])
    yield f"dedup: {{key: {_key(random, plain=True)[0]}, keep: {keep}, order: {order}}}"


def _key(random: Random, *, plain: bool = False) -> tuple[str, Sequence[str]]:
    """A key, and the columns of it that are numbers."""
    names = random.sample(sorted(KEYS), random.choice([0, 1, 1, 2, 3]))
    if plain or random.random() < 0.6:
        return f"[{', '.join(['nr', *names])}]", [n for n in names if n == "ki"]
    made = random.choice(["ki: ki + 1", "at: \"coalesce(ks, '?')\"", "x: kx * 2", "ki: kf"])
    numbers = ["ki"] if made.startswith("ki") else []
    return f"{{nr: nr, {made}}}", numbers


def _window(random: Random) -> str:
    size, every = sorted(random.sample(range(1, 13), 2), reverse=True)
    offset = random.choice(["", "", ", offset: 100ms"])
    quarters = f"{every * 250}ms"
    match random.randrange(9):
        case 0:
            return ""
        case 1:
            return "window: {global: true}"
        case 2 | 3:
            return f"window: {{session: {random.choice(SIZES)}}}"
        case 4 | 5:
            return f"window: {{tumble: {random.choice(SIZES)}{offset}}}"
        case 6:
            return f"window: {{slide: {size * 250}ms, every: {quarters}{offset}}}"
        case 7:
            return f"window: {{slide: {quarters}, every: {size * 250}ms{offset}}}"
    times = random.randint(2, 6)
    return f"window: {{cumulate: {every * 250 * times}ms, every: {quarters}{offset}}}"


def _text(random: Random, numbers: Sequence[str]) -> str:
    if numbers and random.random() < 0.2:
        return f"{random.choice(numbers)} + count(*)"
    if random.random() < 0.8:
        return _call(random)
    call = _call(random)
    names = _names(random)
    listed = random.choice(LISTS).format(**names)
    text = random.choice(WHOLES)
    if "between" in text:
        call = f"max({random.choice(['ki', 'n3', 's'])})"
    return text.format(call=call, list=listed)


def _call(random: Random) -> str:
    where = random.choice(["", "", "", f" filter (where {random.choice(CONDITIONS)})"])
    return random.choice(CALLS).format(**_names(random)) + where


def _names(random: Random) -> dict[str, str]:
    found = {"any": NAMES, "ordered": ORDERED, "summed": SUMMED, "spread": SPREAD}
    found |= {"averaged": AVERAGED, "paired": PAIRED, "finite": FINITE, "integer": INTEGERS}
    picked = {name: random.choice(names) for name, names in found.items()}
    return {**picked, "condition": random.choice(CONDITIONS)}


def _ranking(random: Random) -> str:
    value = random.choice([*ORDERED, "ki * -1", "kx", "kx", "ks"])
    end = random.choice(["", " asc", " desc"])
    return f'"{value}{end}{random.choice(["", "", " nulls last", " nulls first"])}"'
