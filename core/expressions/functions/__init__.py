"""The table of functions and operators that an expression may call.

Tests: tests/core/expressions/functions, tests/core/expressions/test_spark_answers.py and
tests/docs/test_examples.py.
"""

from headrace.core.expressions.function import SqlFunction
from headrace.core.expressions.functions.addresses import ADDRESSES
from headrace.core.expressions.functions.array_elements import ARRAY_ELEMENTS
from headrace.core.expressions.functions.arrays import ARRAYS
from headrace.core.expressions.functions.between_case import BETWEEN_CASE
from headrace.core.expressions.functions.bitwise import BITWISE
from headrace.core.expressions.functions.charsets import CHARSETS
from headrace.core.expressions.functions.ciphers import CIPHERS
from headrace.core.expressions.functions.clock_times import CLOCK_TIMES
from headrace.core.expressions.functions.collections import COLLECTIONS
from headrace.core.expressions.functions.confidential_texts import CONFIDENTIAL_TEXTS
from headrace.core.expressions.functions.conversions import CONVERSIONS
from headrace.core.expressions.functions.csv_texts import CSV_TEXTS
from headrace.core.expressions.functions.date_part import DATE_PART
from headrace.core.expressions.functions.dates import DATES
from headrace.core.expressions.functions.digits import DIGITS
from headrace.core.expressions.functions.encodings import ENCODINGS
from headrace.core.expressions.functions.failures import FAILURES
from headrace.core.expressions.functions.format_strings import FORMAT_STRINGS
from headrace.core.expressions.functions.higher_order import HIGHER_ORDER
from headrace.core.expressions.functions.higher_order_maps import HIGHER_ORDER_MAPS
from headrace.core.expressions.functions.interval_fields import INTERVAL_CONSTRUCTORS
from headrace.core.expressions.functions.json_texts import JSON_TEXTS
from headrace.core.expressions.functions.logic import LOGIC
from headrace.core.expressions.functions.maps import MAPS
from headrace.core.expressions.functions.mathematics import MATHEMATICS
from headrace.core.expressions.functions.number_formats import NUMBER_FORMATS
from headrace.core.expressions.functions.numbers import NUMBERS
from headrace.core.expressions.functions.patterns import PATTERNS
from headrace.core.expressions.functions.random_values import RANDOM_VALUES
from headrace.core.expressions.functions.rounding import ROUNDING
from headrace.core.expressions.functions.row_hashes import ROW_HASHES
from headrace.core.expressions.functions.sequences import SEQUENCES
from headrace.core.expressions.functions.strings import STRINGS
from headrace.core.expressions.functions.text_similarity import TEXT_SIMILARITY
from headrace.core.expressions.functions.time_buckets import TIME_BUCKETS
from headrace.core.expressions.functions.time_differences import TIME_DIFFERENCES
from headrace.core.expressions.functions.time_formats import TIME_FORMATS
from headrace.core.expressions.functions.time_zones import TIME_ZONES
from headrace.core.expressions.functions.timestamp_constructors import TIMESTAMP_CONSTRUCTORS
from headrace.core.expressions.functions.timestamps import TIMESTAMPS
from headrace.core.expressions.functions.trigonometry import TRIGONOMETRY
from headrace.core.expressions.functions.unix_time import UNIX_TIME

FAMILIES: tuple[tuple[SqlFunction, ...], ...] = (
    LOGIC,
    FAILURES,
    BETWEEN_CASE,
    NUMBERS,
    ROUNDING,
    MATHEMATICS,
    TRIGONOMETRY,
    RANDOM_VALUES,
    BITWISE,
    CONVERSIONS,
    COLLECTIONS,
    ARRAYS,
    ARRAY_ELEMENTS,
    SEQUENCES,
    HIGHER_ORDER,
    HIGHER_ORDER_MAPS,
    MAPS,
    STRINGS,
    CONFIDENTIAL_TEXTS,
    TEXT_SIMILARITY,
    ENCODINGS,
    DIGITS,
    ROW_HASHES,
    CIPHERS,
    NUMBER_FORMATS,
    FORMAT_STRINGS,
    CHARSETS,
    ADDRESSES,
    PATTERNS,
    JSON_TEXTS,
    CSV_TEXTS,
    DATES,
    TIMESTAMPS,
    TIMESTAMP_CONSTRUCTORS,
    TIME_ZONES,
    TIME_BUCKETS,
    CLOCK_TIMES,
    INTERVAL_CONSTRUCTORS,
    DATE_PART,
    TIME_FORMATS,
    UNIX_TIME,
    TIME_DIFFERENCES,
)

FUNCTIONS: dict[str, SqlFunction] = {
    name: row for family in FAMILIES for row in family for name in (row.name, *row.aliases)
}
"""Every function by its lower-case name and by each alias."""
