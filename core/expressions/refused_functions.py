"""Functions of Spark that are refused on purpose, by family, with the reason and the way out.

The resolver and `headrace functions` answer with them, and docs/functions.md counts them apart: a
name that is neither in the catalog nor here is not built yet.
"""

from __future__ import annotations

import re
from functools import cache

from headrace.core.expressions.foreign_functions import JSON_ADVICE, USER_FUNCTION_HINT
from headrace.core.types.lazy_dataclass import dataclass

WINDOW_FUNCTIONS_REASON = "functions over the rows of a key belong into over: of a step"


@dataclass(frozen=True, slots=True)
class RefusedFamily:
    """Functions that are refused for the same reason; `names` is a regular expression."""

    subject: str
    names: str
    reason: str
    way_out: str


REFUSED_FAMILIES: tuple[RefusedFamily, ...] = (
    RefusedFamily(
        "variant",
        r"(try_)?parse_json|(try_)?variant_\w+|is_(valid_variant|variant_null)"
        r"|schema_of_variant(_agg)?|to_variant_object",
        "there is no variant type: the types of all values are known before anything runs",
        JSON_ADVICE,
    ),
    RefusedFamily(
        "XML",
        r"(from|to|schema_of)_xml|xpath(_\w+)?",
        "expressions do not read or write XML",
        USER_FUNCTION_HINT,
    ),
    RefusedFamily(
        "Avro and Protobuf",
        r"(from|to|schema_of)_avro|(from|to)_protobuf",
        "expressions do not read or write Avro and Protobuf",
        USER_FUNCTION_HINT,
    ),
    RefusedFamily(
        "sketches",
        r"kll_\w+|theta_\w+|tuple_\w+|hll_\w+|count_min_sketch|approx_top_k\w*"
        r"|bitmap_(and|or|construct)_agg",
        "its result is a sketch in a binary format of Spark's own",
        "count(distinct value) counts exactly; a user-defined aggregate can use a library:"
        " aggregate: {name: {python: FILE.py:CLASS}}",
    ),
    RefusedFamily(
        "geography",
        r"st_\w+",
        "there are no geometry and geography types",
        USER_FUNCTION_HINT,
    ),
    RefusedFamily(
        "vectors",
        r"vector_\w+",
        "there are no functions of vectors",
        USER_FUNCTION_HINT,
    ),
    RefusedFamily(
        "collations",
        r"collate|collations?",
        "text is compared by its bytes in UTF-8, as with Spark's collation UTF8_BINARY",
        "lower(text) on both sides compares without case",
    ),
    RefusedFamily(
        "reflection",
        r"java_method|(try_)?reflect",
        "expressions do not call Java",
        USER_FUNCTION_HINT,
    ),
    RefusedFamily(
        "session values",
        r"current_(catalog|database|path|schema|user)|session_user|user|version|sql_keywords"
        r"|python_worker_logs",
        "a pipeline has no session, catalog or user",
        "${env:NAME} inserts a value of the environment, as in '${env:USER}'",
    ),
    RefusedFamily(
        "input files",
        r"input_file_(block_length|block_start|name)",
        "rows do not carry the file that they are from",
        "one source for each file, with a constant column in a step, tells them apart",
    ),
    RefusedFamily(
        "place of a row",
        r"monotonically_increasing_id|spark_partition_id",
        "the place of a row depends on how the work is divided, which may change at any restart",
        "kafka.metadata adds the partition and the offset of a record as columns",
    ),
    RefusedFamily(
        "shares of all rows",
        r"percent_rank|cume_dist|ntile",
        "they need all rows of a key, and a stream has no last one",
        "rank() and row_number() count up to the current row: over: {n: row_number()}",
    ),
    RefusedFamily(
        "ordered rows",
        r"row_number|rank|dense_rank|lag|lead|nth_value|counter_diff",
        WINDOW_FUNCTIONS_REASON,
        "over: {previous: lag(price)}; top: {n: 1, by: price desc} ranks by other values",
    ),
    RefusedFamily(
        "calendar intervals",
        r"(try_)?make_interval",
        "an interval has months, or days and time, but not both",
        "make_ym_interval(years, months) and make_dt_interval(days, hours, minutes, seconds)",
    ),
    RefusedFamily(
        "nanoseconds",
        r"(unix|timestamp)_nanos",
        "timestamps have microseconds",
        "unix_micros(time) and timestamp_micros(number)",
    ),
    RefusedFamily(
        "windows of time",
        r"(session_)?window|window_time",
        "a window belongs to a step and is not a value",
        "window: of a step groups rows by time: window: {tumble: 5m}",
    ),
    RefusedFamily(
        "grouping sets",
        r"grouping(_id)?",
        "there are no grouping sets",
        "one aggregate step for each set of keys",
    ),
    RefusedFamily(
        "rows from one row",
        r"(pos)?explode(_outer)?|inline(_outer)?|stack|json_tuple",
        "an expression computes one value for each row",
        "explode: of a step makes rows of one row, as in explode: posexplode(items)",
    ),
    RefusedFamily(
        "tables",
        r"range",
        "rows come from sources",
        "generate: of a source makes rows",
    ),
    RefusedFamily(
        "metric views",
        r"measure",
        "there are no metric views",
        "aggregate: of a step computes aggregates",
    ),
)


@cache
def find_refused_family(name: str) -> RefusedFamily | None:
    """Return the family of a function that is refused on purpose.

    >>> find_refused_family("xpath_int").reason
    'expressions do not read or write XML'
    """
    return next((f for f in REFUSED_FAMILIES if re.fullmatch(f.names, name)), None)
