"""Unions, intersections and differences of queries.

A union is a step with several inputs. Intersections and differences count equal rows: each row of
the left query counts in one column, each of the right query in another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headrace.core.expressions.coercion import common_type
from headrace.core.pipeline.fields import Assignment, Explode
from headrace.core.plan.sql.distinct_rows import make_distinct
from headrace.core.plan.sql.items import write_select
from headrace.core.plan.sql.labels import label_queries, summarize_operand
from headrace.core.plan.sql.steps import Draft, Relation, StepWriter
from headrace.core.plan.sql.texts import QueryTexts, build_all
from headrace.core.sql.syntax_tree import (
    QueryBody,
    SetOperation,
)
from headrace.core.types.data_types import BINARY, BOOLEAN, STRING, Type, is_nested, quote_name
from headrace.core.types.lazy_dataclass import dataclass

_LEFT, _RIGHT = "left rows", "right rows"


@dataclass(slots=True)
class SetOperationBuilder:
    """Builds a union, an intersection or a difference; `build_body` builds its queries."""

    writer: StepWriter
    texts: QueryTexts
    build_body: Callable[[QueryBody, tuple[str, ...]], Draft]
    path: tuple[str, ...]

    def build(self, body: SetOperation) -> Draft:
        """Return the draft of its rows. Raises RejectedQuery."""
        operands = [*_list_operands(body)] if body.operator == "union" else [body.left, body.right]
        text = self.texts.written.text.reveal()
        labels = label_queries([summarize_operand(each, text) for each in operands])
        drafts = build_all(
            zip(operands, labels, strict=True),
            lambda operand: self.build_body(operand[0], (*self.path, operand[1])),
        )
        relations = self._align(body, operands, labels, drafts)
        place = body.keyword
        names = relations[0].schema.names
        columns = [(n, self.texts.name(quote_name(n), place), place) for n in names]
        tables = tuple(dict.fromkeys(t for each in drafts for t in each.tables))
        draft = Draft(tuple(relations), relations[0].scope, tables)
        draft.places = {"select": place, "from": place}
        draft.columns = columns
        if body.operator == "union" and not body.is_all:
            draft.columns = make_distinct(draft, columns, self.writer, place)
        if body.operator != "union":
            draft = self._compare(body, draft)
        return draft

    def _align(
        self,
        body: SetOperation,
        operands: list[QueryBody],
        labels: list[str],
        drafts: list[Draft],
    ) -> list[Relation]:
        """Return the rows of the operands with the names of the first one's columns, and with
        types that fit all of them."""
        found: list[Relation] = []
        for label, draft in zip(labels, drafts, strict=True):
            if draft.is_empty:
                found.append(replace(draft.inputs[0], scope=draft.scope))
            else:
                self._rename_columns(draft, drafts[0])
                name = self.writer.choose_name(*self.path, label)
                found.append(self.writer.write(draft, name))
        first = found[0].schema
        types = self._find_types(body, operands, found)
        seen = set[str]()
        aligned = []
        for operand, label, each in zip(operands, labels, found, strict=True):
            tables = each.scope.tables
            draft = Draft((each,), each.scope, tables, places={"select": operand.span})
            marks: tuple[tuple[str, bool], ...] = ()
            if body.operator != "union":
                is_left = operand is operands[0]
                marks = tuple((n, is_left == (n == _LEFT)) for n in (_LEFT, _RIGHT))
            columns = []
            for old, name, type in zip(each.schema, first.names, types, strict=True):
                text = quote_name(old.name)
                text = text if old.type == type else f"cast({text} as {type})"
                columns.append((name, self.texts.name(text, operand.span), operand.span))
            as_it_is = all(
                (old.name, old.type) == (name, type)
                for old, name, type in zip(each.schema, first.names, types, strict=True)
            )
            if as_it_is and each.stream not in seen and not marks:
                seen.add(str(each.stream))
                aligned.append(each)
                continue
            for name, is_there in marks:
                text = f"cast({int(is_there)} as bigint)"
                columns.append((name, self.texts.name(text, operand.span), operand.span))
            draft.clauses["select"] = write_select(columns, self.texts)
            name = self.writer.choose_name(*self.path, label, body.operator)
            aligned.append(self.writer.write(draft, name))
        return aligned

    def _find_types(
        self, body: SetOperation, operands: list[QueryBody], found: list[Relation]
    ) -> list[Type]:
        """Return the types that fit the columns of all queries."""
        first = found[0].schema
        types: list[Type] = [each.type for each in first]
        for operand, each in zip(operands[1:], found[1:], strict=True):
            if len(each.schema) != len(first):
                message = (
                    f"{body.operator} needs queries with equally many columns, got {len(first)} "
                    f"and {len(each.schema)}"
                )
                raise self.texts.reject(message, operand.span)
            for at, (one, other) in enumerate(zip(types, each.schema, strict=True)):
                both = common_type(one, other.type) or _promote_to_string(one, other.type)
                if both is None:
                    message = (
                        f'"{first.names[at]}" is {one} in the first query and {other.type} here'
                    )
                    raise self.texts.reject(message, operand.span, "cast one of them")
                types[at] = both
        return types

    def _rename_columns(self, draft: Draft, first: Draft) -> None:
        """Give the columns of a query the names of those of the first query."""
        names = [name for name, _, _ in first.columns]
        if len(names) != len(draft.columns) or names == [name for name, _, _ in draft.columns]:
            return
        draft.columns = [
            (name, text, place) for name, (_, text, place) in zip(names, draft.columns, strict=True)
        ]
        is_join = draft.join is not None
        draft.clauses["select"] = write_select(draft.columns, self.texts, is_join=is_join)

    def _compare(self, body: SetOperation, draft: Draft) -> Draft:
        """Return the rows of an intersection or a difference, by the counts of equal rows."""
        place, texts = body.keyword, self.texts
        names = [name for name, _, _ in draft.columns if name not in (_LEFT, _RIGHT)]
        columns = [(n, texts.name(quote_name(n), place), place) for n in names]
        one, other = quote_name(_LEFT), quote_name(_RIGHT)
        draft.clauses["key"] = tuple(Assignment(texts.name(n, place), None) for n in names)
        draft.clauses["aggregate"] = tuple(
            Assignment(texts.name(n, place), texts.name(f"sum({quote_name(n)})", place))
            for n in (_LEFT, _RIGHT)
        )
        having = {
            ("intersect", False): f"{one} > 0 and {other} > 0",
            ("intersect", True): f"{one} > 0 and {other} > 0",
            ("except", False): f"{one} > 0 and {other} = 0",
            ("except", True): f"{one} > {other}",
        }[body.operator, body.is_all]
        draft.clauses["having"] = texts.name(having, place)
        if body.is_all:
            relation = self.writer.write(draft, self.writer.choose_name(*self.path, body.operator))
            copies = (
                f"least({one}, {other})" if body.operator == "intersect" else f"{one} - {other}"
            )
            draft = Draft((relation,), relation.scope, draft.tables, places=draft.places)
            array = texts.name(f"array_repeat(1, cast({copies} as int))", place)
            draft.clauses["explode"] = Explode(texts.name("copy", place), array)
        draft.clauses["select"] = write_select(columns, texts)
        draft.columns = columns
        return draft


def _promote_to_string(one: Type, other: Type) -> Type | None:
    """Return the type of a column that is text in one query, and another single value in the
    other."""
    kept = (one, other)
    is_convertible = not any(is_nested(each) or each in (BINARY, BOOLEAN) for each in kept)
    return STRING if STRING in kept and is_convertible else None


def _list_operands(body: QueryBody) -> list[QueryBody]:
    """Return the queries of a union, and of the unions of the same kind in it."""
    if not isinstance(body, SetOperation) or body.operator != "union":
        return [body]
    left = body.left
    same = isinstance(left, SetOperation) and left.is_all == body.is_all
    return [*(_list_operands(left) if same else [left]), body.right]
