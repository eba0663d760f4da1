"""The table of functions and operators that an expression may call."""

from headrace.core.expressions.function import Function
from headrace.core.expressions.functions.bits import BITS
from headrace.core.expressions.functions.collections import COLLECTIONS
from headrace.core.expressions.functions.conversions import CONVERSIONS
from headrace.core.expressions.functions.dates import DATES
from headrace.core.expressions.functions.epochs import EPOCHS
from headrace.core.expressions.functions.logic import LOGIC
from headrace.core.expressions.functions.mathematics import MATHEMATICS
from headrace.core.expressions.functions.numbers import NUMBERS
from headrace.core.expressions.functions.parts import PARTS
from headrace.core.expressions.functions.patterns import PATTERNS
from headrace.core.expressions.functions.rounding import ROUNDING
from headrace.core.expressions.functions.spans import SPANS
from headrace.core.expressions.functions.strings import STRINGS
from headrace.core.expressions.functions.subjects import SUBJECTS
from headrace.core.expressions.functions.times import TIMES
from headrace.core.expressions.functions.written_times import WRITTEN_TIMES

FAMILIES: tuple[tuple[Function, ...], ...] = (
    LOGIC,
    SUBJECTS,
    NUMBERS,
    ROUNDING,
    MATHEMATICS,
    BITS,
    CONVERSIONS,
    COLLECTIONS,
    STRINGS,
    PATTERNS,
    DATES,
    TIMES,
    PARTS,
    WRITTEN_TIMES,
    EPOCHS,
    SPANS,
)

TABLE: dict[str, Function] = {
    name: row for family in FAMILIES for row in family for name in (row.name, *row.aliases)
}
"""Every function by its lower-case name and by each alias."""
