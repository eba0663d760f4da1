"""The one table of functions and operators: what an expression may call, and what it means."""

from headrace.core.expressions.function import Function
from headrace.core.expressions.functions.collections import COLLECTIONS
from headrace.core.expressions.functions.logic import LOGIC
from headrace.core.expressions.functions.patterns import PATTERNS
from headrace.core.expressions.functions.strings import STRINGS

FAMILIES: tuple[tuple[Function, ...], ...] = (
    LOGIC,
    COLLECTIONS,
    STRINGS,
    PATTERNS,
)

TABLE: dict[str, Function] = {
    name: row for family in FAMILIES for row in family for name in (row.name, *row.aliases)
}
"""Every row by its lower-case name and by each alias."""
