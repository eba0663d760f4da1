"""The columns of a stream while the plan is built, and the expressions over them.

The whole file is checked even if parts of it are wrong: a column whose expression could not be
typed is `broken`, and a stream whose step is invalid is `open` (it may have any column).
Expressions over these are not checked, so that one error is reported once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core.expressions import Typed
from headrace.core.expressions.parser import parse
from headrace.core.expressions.resolve import NO_TABLES, Resolver, Tables
from headrace.core.expressions.syntax import Name, Node, walk
from headrace.core.expressions.typed import ExpressionError, ExpressionErrors
from headrace.core.problems import Place, Problem, Severity
from headrace.core.types import BOOLEAN, INTERVALS, NULL, Array, Field, Schema, Struct, Type

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateExpression
    from headrace.core.pipeline.text import Text


@dataclass(frozen=True, slots=True)
class Known:
    """The known columns of a stream."""

    schema: Schema
    broken: frozenset[str] = frozenset()
    open: bool = False
    tables: Tables = field(default_factory=lambda: NO_TABLES)
    """For each of the two inputs of a step, the names of its columns in this stream."""

    def may_have(self, name: str) -> bool:
        """Whether a column of that name may be there though the schema has none."""
        return self.open or name in self.broken

    @property
    def whole(self) -> bool:
        """Whether the schema is complete."""
        return not self.open and not self.broken


UNKNOWN = Known(Schema(()), open=True)


@dataclass(slots=True)
class Report:
    """The problems found while a plan is built; `about` is the part being built."""

    problems: list[Problem] = field(default_factory=list)
    about: str = ""
    folder: Path = Path()
    """The folder of the files that the pipeline names."""

    def add(
        self, message: str, place: Place | None, hint: str = "", severity: Severity = "error"
    ) -> None:
        """Add a problem of the current part."""
        self.problems.append(Problem(message, place, hint, self.about, severity))

    def warn(self, message: str, place: Place | None, hint: str = "") -> None:
        """Add a warning: something is allowed, but probably not meant."""
        self.add(message, place, hint, "warning")


def type_text(text: Text, known: Known, report: Report, end: int | None = None) -> Typed | None:
    """Return the typed expression; None if it is invalid (reported) or uses unknown columns.

    With `end`, the expression is the text before that character.
    """
    try:
        tree = parse(text.reveal()[:end])
        if _unknowable(tree, known):
            _report(text, _certainly_unknown(tree, known), report)
            return None
        return Resolver(known.schema, known.tables).resolve(tree)
    except ExpressionError as error:
        _report(text, (error,), report)
    except ExpressionErrors as errors:
        _report(text, errors.errors, report)
    return None


def _unknowable(tree: Node, known: Known) -> bool:
    names = {node.name for node in walk(tree) if isinstance(node, Name)} - known.tables.keys()
    return any(known.may_have(name) and name not in known.schema for name in names)


def _certainly_unknown(tree: Node, known: Known) -> tuple[ExpressionError, ...]:
    """Return the errors of columns that do not exist, whatever the broken columns are."""
    if known.open:
        return ()
    resolver = Resolver(known.schema, known.tables)
    errors = []
    for node in walk(tree):
        named = isinstance(node, Name) and node.name not in known.tables
        if isinstance(node, Name) and named and not known.may_have(node.name):
            try:
                resolver.column(node)
            except ExpressionError as error:
                errors.append(error)
    return tuple(errors)


def _report(text: Text, errors: tuple[ExpressionError, ...], report: Report) -> None:
    for error in errors:
        report.add(error.message, text.locate(error.span.start, error.span.end), error.hint)


def condition(text: Text, known: Known, report: Report) -> Typed | None:
    """Return a typed expression that must be boolean; None if it is not, which is reported."""
    typed = type_text(text, known, report)
    if typed is None or typed.type == BOOLEAN:
        return typed
    if typed.type == NULL:
        report.add("the condition is always null, so no row passes", text.locate())
        return None
    shown = typed.span.start, typed.span.end
    report.add(f"wanted a condition (boolean), got {typed.type}", text.locate(*shown), "compare it")
    return None


def aggregate(text: Text, known: Known, keys: Known, report: Report) -> AggregateExpression | None:
    """Return a typed expression over groups of rows, for a column; `keys` are the group's."""
    # Loading all aggregates takes time, which a pipeline without aggregates need not spend.
    from headrace.core.aggregates import type_aggregates

    try:
        tree = parse(text.reveal())
        both = Schema((*keys.schema, *(f for f in known.schema if f.name not in keys.schema)))
        all_known = Known(both, known.broken | keys.broken, known.open or keys.open)
        if _unknowable(tree, all_known):
            _report(text, _certainly_unknown(tree, all_known), report)
            return None
        typed = type_aggregates(tree, known.schema, keys.schema)
    except ExpressionError as error:
        _report(text, (error,), report)
    except ExpressionErrors as errors:
        _report(text, errors.errors, report)
    else:
        return typed if _is_column(typed.type, text, report) else None
    return None


def output(text: Text, known: Known, report: Report, end: int | None = None) -> Typed | None:
    """Return a typed expression that can be a column."""
    typed = type_text(text, known, report, end)
    return typed if typed and _is_column(typed.type, text, report) else None


def _is_column(type: Type, text: Text, report: Report) -> bool:
    if _holds(type, NULL):
        hint = "give it a type: cast(null as string)"
        report.add("a column needs a type, and null has none", text.locate(), hint)
        return False
    if type in INTERVALS:
        hint = "timestampdiff(SECOND, a, b) gives a number"
        report.add(f"a column cannot be an {type}", text.locate(), hint)
        return False
    return True


def _holds(type: Type, part: Type) -> bool:
    match type:
        case Array(element):
            return _holds(element, part)
        case Struct(fields):
            return any(_holds(field.type, part) for field in fields)
    return type == part


def known_of(columns: list[tuple[str, Typed | None]]) -> Known:
    """Return the known columns of a stream; columns without a type are broken."""
    typed = [Field(name, t.type, t.nullable) for name, t in columns if t is not None]
    return Known(Schema(tuple(typed)), frozenset(name for name, t in columns if t is None))
