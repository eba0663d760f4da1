"""Grouping sets as one aggregate: each row is repeated for each set, with the number of the set.

The number is Spark's `grouping_id()`: a bit for each key, the last key's is the lowest, which is 1
in the sets that do not have the key. There the key is null. Sets that are written twice differ by
higher bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from headrace.core.expressions.parsing.syntax_tree import CallNode, SyntaxNode
from headrace.core.expressions.typed import ExpressionError
from headrace.core.types.data_types import quote_name
from headrace.core.types.lazy_dataclass import dataclass

SET_NUMBER = "grouping_id()"
"""The name of the column with the number of a row's set."""
GROUPING_FUNCTIONS = ("grouping", "grouping_id")
NO_SETS_HINT = "they go with group by rollup(...), cube(...) or grouping sets (...)"


@dataclass(frozen=True, slots=True)
class NumberedSets:
    """The sets of a `group by`, as numbers; `keys` are the canonical texts of its expressions."""

    column: str
    keys: tuple[str, ...]
    numbers: tuple[int, ...]

    @classmethod
    def from_sets(
        cls, column: str, keys: Sequence[str], sets: Sequence[frozenset[str]]
    ) -> NumberedSets:
        """Number the sets, each of which has the texts of its keys."""
        seen = Counter[int]()
        numbers = []
        for each in sets:
            bits = sum(1 << at for at, key in enumerate(reversed(keys)) if key not in each)
            numbers.append(bits + (seen[bits] << len(keys)))
            seen[bits] += 1
        return cls(column, tuple(keys), tuple(numbers))

    @property
    def array(self) -> str:
        """The array of the numbers, of which each row gets one."""
        return f"array({', '.join(f'{number}L' for number in self.numbers)})"

    def write_condition(self, key: str) -> str:
        """Return the condition that a row's set has a key; "" if all sets have it."""
        bit = self._get_bit(key)
        if not any(number & bit for number in self.numbers):
            return ""
        return f"({quote_name(self.column)} & {bit}) = 0"

    def write_call(self, call: CallNode, canonical: Callable[[SyntaxNode], str]) -> str:
        """Return the text of a call of `grouping` or `grouping_id` over the groups.

        Raises ExpressionError.
        """
        keys = [*map(canonical, call.arguments)]
        if call.name == "grouping_id":
            if keys and keys != [*self.keys]:
                message = "grouping_id wants all expressions of group by, in their order"
                raise ExpressionError(message, call.span, "write grouping_id()")
            column = quote_name(self.column)
            is_repeated = any(number >> len(self.keys) for number in self.numbers)
            return f"({column} & {(1 << len(self.keys)) - 1})" if is_repeated else column
        if len(keys) != 1 or keys[0] not in self.keys:
            message = "grouping wants one expression of group by"
            raise ExpressionError(message, call.span)
        bit = self._get_bit(keys[0])
        column = quote_name(self.column)
        return f"cast(case when ({column} & {bit}) = 0 then 0 else 1 end as tinyint)"

    def _get_bit(self, key: str) -> int:
        return 1 << (len(self.keys) - 1 - self.keys.index(key))
