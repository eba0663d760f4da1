"""Conditions with a query as values: `x in (select ...)` and `exists` below `or`, in `case`, in
`select`, and `not in` where a value may be null.

The rows of the query are counted by what they are compared with, and a left join adds the count to
the rows around it. For nulls, which make `in` null, a second join adds the number of all rows and
of those that are null.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.core.expressions.parsing.syntax_tree import Literal, SyntaxNode
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.pipeline.fields import Assignment
from headrace.core.plan.sql.conditions import QueryRows
from headrace.core.plan.sql.scalars import KEY_PREFIX, ScalarJoiner
from headrace.core.plan.sql.scope import Scope
from headrace.core.plan.sql.steps import Draft
from headrace.core.plan.sql.texts import QueryTexts
from headrace.core.types.data_types import quote_name
from headrace.core.types.lazy_dataclass import dataclass

_ROWS, _NULLS = "rows", "nulls"


def needs_mark(draft: Draft, rows: QueryRows) -> bool:
    """Whether a semi or anti join cannot tell the rows of a draft for which a condition is true.

    It has no key for `exists` without a condition on the rows, and `not in` may be null.
    """
    if not rows.condition.subjects:
        return not rows.correlated
    return rows.condition.type == "anti" and any(
        _is_nullable(subject, draft.scope) or _is_nullable(value, rows.draft.scope)
        for subject, value in rows.pairs
    )


def _is_nullable(node: SyntaxNode, scope: Scope) -> bool:
    try:
        column = scope.find(node)
    except ExpressionError:
        column = None
    return column is None or column.field.nullable


@dataclass(slots=True)
class MarkJoiner:
    """Adds the truth of a condition with a query to the rows of a draft."""

    scalars: ScalarJoiner
    texts: QueryTexts

    def join(self, draft: Draft, rows: QueryRows) -> Draft:
        """Return the rows with what the condition needs, which the texts know from then on.

        Raises RejectedQuery.
        """
        node = rows.condition.inner
        right = self.scalars.single_input(rows.draft)
        pairs = [self.scalars.split(e, right.scope, draft.scope) for e in rows.correlated]
        equal = [(value, subject) for subject, value in rows.pairs]
        draft, count = self._add_counts(draft, right, [*pairs, *equal], node.span)
        subjects = [each for each, _ in rows.pairs if _is_nullable(each, draft.scope)]
        values = [each for _, each in rows.pairs if _is_nullable(each, right.scope)]
        if len(rows.pairs) > 1 and (subjects or values):
            message = "in with several columns, where it may be null, is not supported"
            hint = "exists (select 1 from ... where x = a and y = b) is never null"
            raise self.texts.reject(message, node.span, hint)
        counts = ""
        if subjects or values:
            nulls = values[0] if values else None
            draft, counts = self._add_counts(draft, right, pairs, node.span, nulls)

        def read(scope: Scope) -> str | None:
            found = {(c.table, c.name.rpartition(" ")[2]): c.text for c in scope.columns}
            if (count, _ROWS) not in found:
                return None
            matched = f"coalesce({found[count, _ROWS]}, 0) > 0"
            unknown = []
            if values:
                unknown.append(f"coalesce({found[counts, _NULLS]}, 0) > 0")
            if subjects and not isinstance(subjects[0], Literal):
                text = self.texts.write(subjects[0], scope)
                unknown.append(f"({text}) is null and coalesce({found[counts, _ROWS]}, 0) > 0")
            if not unknown:
                return f"({matched})"
            is_unknown = " or ".join(unknown)
            return f"(case when {matched} then true when {is_unknown} then null else false end)"

        self.texts.values[node.span] = read
        return draft

    def _add_counts(
        self,
        draft: Draft,
        right: Draft,
        pairs: list[tuple[SyntaxNode, SyntaxNode]],
        place: Span,
        nulls: SyntaxNode | None = None,
    ) -> tuple[Draft, str]:
        """Return the rows with the number of rows of a query whose values equal theirs, and the
        name of the table that has it."""
        texts, label = self.texts, self.scalars.label
        groups = replace(right, clauses={**right.clauses}, places={**right.places})
        keys = [f"{KEY_PREFIX}{at}" for at in range(1, len(pairs) + 1)]
        if keys:
            groups.clauses["key"] = tuple(
                Assignment(texts.name(key, own.span), texts.write(own, right.scope))
                for key, (own, _) in zip(keys, pairs, strict=True)
            )
        columns = {f"{label} {_ROWS}": texts.name("count(*)", place)}
        if nulls is not None:
            text = texts.write(nulls, right.scope)
            columns[f"{label} {_NULLS}"] = texts.name(f"count_if(({text}) is null)", nulls.span)
        groups.clauses["aggregate"] = tuple(
            Assignment(texts.name(name, place), text) for name, text in columns.items()
        )
        groups.places.update(dict.fromkeys(("key", "aggregate"), place))
        groups.columns = [
            (name, texts.name(quote_name(name), place), place) for name in [*columns, *keys]
        ]
        outer = [around for _, around in pairs]
        return self.scalars.join_groups(draft, groups, outer, place)
