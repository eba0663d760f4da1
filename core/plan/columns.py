"""The columns of a stream while the plan is built, and the expressions over them.

The whole file is checked even if parts of it are wrong: a column whose expression could not be
typed is in `broken_names`, and a stream whose step is invalid `is_open` (it may have any column).
Expressions over these are not checked, so that one error is reported once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from headrace.core.errors.problems import Location, Problem, Severity
from headrace.core.expressions import TypedExpression
from headrace.core.expressions.generators import (
    Generator,
    blank_argument_name,
    generate_elements,
    is_generator,
    resolve_generator,
)
from headrace.core.expressions.parsing.frame_parser import parse_framed_expression
from headrace.core.expressions.parsing.parser import parse_expression
from headrace.core.expressions.parsing.syntax_tree import CallNode, SyntaxNode, find_free_names
from headrace.core.expressions.resolver import NO_TABLES, ExpressionResolver, TableColumns
from headrace.core.expressions.typed import (
    DEFAULT_MAX_VALUE,
    ExpressionError,
    ExpressionErrors,
    find_warnings,
    is_fallible,
)
from headrace.core.pipeline.text import Text
from headrace.core.plan.constant_conditions import CONSTANT_MESSAGE, find_constant_conditions
from headrace.core.types.change_columns import CHANGE
from headrace.core.types.data_types import (
    BOOLEAN,
    NULL,
    STRING,
    Array,
    Field,
    MapType,
    Schema,
    Struct,
    Type,
    find_map,
    is_nested,
)
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateExpression
    from headrace.core.aggregates.over_calls import OverExpression


ResolvedT = TypeVar("ResolvedT")
"""The result of resolving an expression."""


@dataclass(frozen=True, slots=True)
class KnownColumns:
    """The known columns of a stream."""

    schema: Schema
    broken_names: frozenset[str] = frozenset()
    is_open: bool = False
    tables: TableColumns = field(default_factory=lambda: NO_TABLES)
    """For each of the two inputs of a step, the names of its columns in this stream."""
    has_row_place: bool = False
    """Whether each row has a place in the row order that does not depend on batches: that of a row
    of a source, also after stateless steps."""

    def may_have(self, name: str) -> bool:
        """Whether a column of that name may be there though the schema has none."""
        return self.is_open or name in self.broken_names

    @property
    def is_complete(self) -> bool:
        """Whether the schema is complete."""
        return not self.is_open and not self.broken_names


UNKNOWN_COLUMNS = KnownColumns(Schema(()), is_open=True, has_row_place=True)


@dataclass(slots=True)
class PlanProblems:
    """The problems found while a plan is built; `subject` is the part being built."""

    problems: list[Problem] = field(default_factory=list)
    subject: str = ""
    folder: Path = Path()
    """The folder of the files that the pipeline names."""
    max_value: int = DEFAULT_MAX_VALUE
    """The largest value, in bytes, that a function of an expression may make."""

    def add(
        self, message: str, place: Location | None, hint: str = "", severity: Severity = "error"
    ) -> None:
        """Add a problem of the current part."""
        self.problems.append(Problem(message, place, hint, self.subject, severity))

    @property
    def has_errors_of_subject(self) -> bool:
        """Whether an error of the current part was found."""
        return any(p.subject == self.subject and p.severity == "error" for p in self.problems)

    def warn(self, message: str, place: Location | None, hint: str = "") -> None:
        """Add a warning: something is allowed, but probably not meant."""
        self.add(message, place, hint, "warning")


def add_change_column(
    known: KnownColumns, place: Location | None, report: PlanProblems
) -> KnownColumns:
    """Return the columns of facts about changes: those of the rows, and CHANGE."""
    if CHANGE in known.schema:
        report.add(f'there is a column "{CHANGE}" already', place, "rename it in an earlier step")
        return known
    schema = Schema((*known.schema, Field(CHANGE, STRING, nullable=False)))
    return replace(known, schema=schema)


def type_expression(
    text: Text, known: KnownColumns, report: PlanProblems, end: int | None = None
) -> TypedExpression | None:
    """Return the typed expression; None if it is invalid (reported) or uses unknown columns.

    With `end`, the expression is the text before that character.
    """

    def resolve(tree: SyntaxNode) -> TypedExpression:
        return _build_resolver(known, report).resolve(tree)

    typed = _resolve_text(text, text.reveal()[:end], known, report, resolve)
    if typed is not None:
        _report_warnings(text, typed, report)
    return typed


def type_generator(
    text: Text, known: KnownColumns, report: PlanProblems, end: int | None = None
) -> Generator | None:
    """Return the generator of a text: its call, or an array whose elements it generates."""

    def resolve(tree: SyntaxNode) -> Generator:
        resolver = _build_resolver(known, report)
        if isinstance(tree, CallNode) and is_generator(tree):
            return resolve_generator(tree, resolver.resolve_arguments)
        return generate_elements(resolver.resolve(tree))

    written = blank_argument_name(text.reveal()[:end])
    generator = _resolve_text(text, written, known, report, resolve)
    if generator is None:
        return None
    _report_warnings(text, generator.array, report)
    checked = [_check_column_type(column.type, text, report) for column in generator.columns]
    return generator if all(checked) else None


def _build_resolver(known: KnownColumns, report: PlanProblems) -> ExpressionResolver:
    return ExpressionResolver(
        known.schema, known.tables, report.max_value, has_row_place=known.has_row_place
    )


def _resolve_text(
    text: Text,
    written: str,
    known: KnownColumns,
    report: PlanProblems,
    resolve: Callable[[SyntaxNode], ResolvedT],
    parse: Callable[[str], SyntaxNode] = parse_expression,
) -> ResolvedT | None:
    """Return what `resolve` makes of an expression; None if it is invalid, which is reported."""
    try:
        tree = parse(written)
        if _uses_unknown_columns(tree, known):
            _report_errors(text, _find_unknown_columns(tree, known), report)
            return None
        typed = resolve(tree)
        _warn_of_constants(text, tree, known.schema, report)
        return typed
    except ExpressionError as error:
        _report_errors(text, (error,), report)
    except ExpressionErrors as errors:
        _report_errors(text, errors.errors, report)
    return None


def _warn_of_constants(text: Text, tree: SyntaxNode, schema: Schema, report: PlanProblems) -> None:
    for found in find_constant_conditions(text.reveal(), tree, schema):
        report.warn(CONSTANT_MESSAGE, text.locate(found.span.start, found.span.end), found.hint)


def _report_warnings(text: Text, typed: TypedExpression, report: PlanProblems) -> None:
    for warning in find_warnings(typed):
        place = text.locate(warning.span.start, warning.span.end)
        report.warn(warning.message, place, warning.hint)


def _uses_unknown_columns(tree: SyntaxNode, known: KnownColumns) -> bool:
    names = {node.name for node in find_free_names(tree)} - known.tables.keys()
    return any(known.may_have(name) and name not in known.schema for name in names)


def _find_unknown_columns(tree: SyntaxNode, known: KnownColumns) -> tuple[ExpressionError, ...]:
    """Return the errors of columns that do not exist, whatever the broken columns are."""
    if known.is_open:
        return ()
    resolver = ExpressionResolver(known.schema, known.tables)
    errors = []
    for node in find_free_names(tree):
        if node.name not in known.tables and not known.may_have(node.name):
            try:
                resolver.resolve_column(node)
            except ExpressionError as error:
                errors.append(error)
    return tuple(errors)


def _report_errors(text: Text, errors: tuple[ExpressionError, ...], report: PlanProblems) -> None:
    for error in errors:
        report.add(error.message, text.locate(error.span.start, error.span.end), error.hint)


def type_condition(text: Text, known: KnownColumns, report: PlanProblems) -> TypedExpression | None:
    """Return a typed expression that must be boolean; None if it is not, which is reported."""
    typed = type_expression(text, known, report)
    if typed is None or typed.type == BOOLEAN:
        return typed
    if typed.type == NULL:
        hint = f"write {text.printable} is null" if is_fallible(typed) else ""
        report.add("the condition is always null, so no row passes", text.locate(), hint)
        return None
    shown = typed.span.start, typed.span.end
    report.add(f"wanted a condition (boolean), got {typed.type}", text.locate(*shown), "compare it")
    return None


def type_aggregate(
    text: Text,
    known: KnownColumns,
    keys: KnownColumns,
    report: PlanProblems,
    rewrite: Callable[[SyntaxNode], SyntaxNode] = lambda tree: tree,
) -> AggregateExpression | None:
    """Return a typed expression over groups of rows, for a column; `keys` are the group's.

    `rewrite` is applied to the syntax tree first.
    """
    # Loading all aggregates takes time, which a pipeline without aggregates need not spend.
    from headrace.core.aggregates import type_aggregates

    try:
        tree = rewrite(parse_expression(text.reveal()))
        both = Schema((*keys.schema, *(f for f in known.schema if f.name not in keys.schema)))
        all_known = KnownColumns(
            both, known.broken_names | keys.broken_names, known.is_open or keys.is_open
        )
        if _uses_unknown_columns(tree, all_known):
            _report_errors(text, _find_unknown_columns(tree, all_known), report)
            return None
        typed = type_aggregates(
            tree,
            known.schema,
            keys.schema,
            report.max_value,
            has_row_place=known.has_row_place,
        )
        _warn_of_constants(text, tree, both, report)
        for part in (
            typed.finish,
            *(each.typed for call in typed.calls for each in call.all_inputs),
        ):
            _report_warnings(text, part, report)
    except ExpressionError as error:
        _report_errors(text, (error,), report)
    except ExpressionErrors as errors:
        _report_errors(text, errors.errors, report)
    else:
        return typed if _check_column_type(typed.type, text, report) else None
    return None


def type_over_column(
    text: Text, known: KnownColumns, report: PlanProblems
) -> OverExpression | None:
    """Return a typed expression over ordered rows, for a column."""
    # Loading all aggregates takes time, which a pipeline without aggregates need not spend.
    from headrace.core.aggregates.over_calls import type_over

    def resolve(tree: SyntaxNode) -> OverExpression:
        return type_over(tree, known.schema, report.max_value)

    typed = _resolve_text(
        text, text.reveal(), known, report, resolve, parse=parse_framed_expression
    )
    if typed is None:
        return None
    inputs = (each.typed for call in typed.calls for each in call.inputs)
    for part in (typed.finish, *inputs):
        _report_warnings(text, part, report)
    if not typed.calls:
        message = "no function over the rows of a key is called here"
        report.add(message, text.locate(), "as in lag(price), or sum(price); with adds columns")
        return None
    return typed if _check_column_type(typed.type, text, report) else None


def type_column(
    text: Text, known: KnownColumns, report: PlanProblems, end: int | None = None
) -> TypedExpression | None:
    """Return a typed expression that can be a column."""
    typed = type_expression(text, known, report, end)
    if typed is not None and typed.type == NULL and is_fallible(typed):
        hint = "give it a type: cast(... as string)"
        report.add("a column needs a type, and null has none", text.locate(), hint)
        return None
    return typed if typed and _check_column_type(typed.type, text, report) else None


def _check_column_type(type: Type, text: Text, report: PlanProblems) -> bool:
    if _contains_type(type, NULL):
        hint = "give it a type: cast(null as string)"
        report.add("a column needs a type, and null has none", text.locate(), hint)
        return False
    if (map := find_map(type)) and is_nested(map.key):
        hint = "map_entries(...) gives its entries as an array"
        report.add(f"a column cannot be a map with keys of {map.key}", text.locate(), hint)
        return False
    return True


def suggest_single_value(type: Type) -> str:
    """Return the hint for a map where a single value is wanted."""
    return "use one of its values, as in m['key']" if isinstance(type, MapType) else ""


def _contains_type(type: Type, part: Type) -> bool:
    match type:
        case Array(element):
            return _contains_type(element, part)
        case MapType(key, value):
            return _contains_type(key, part) or _contains_type(value, part)
        case Struct(fields):
            return any(_contains_type(field.type, part) for field in fields)
    return type == part


def make_known_columns(columns: list[tuple[str, TypedExpression | None]]) -> KnownColumns:
    """Return the known columns of a stream; columns without a type are broken."""
    typed = [Field(name, t.type, t.nullable) for name, t in columns if t is not None]
    return KnownColumns(Schema(tuple(typed)), frozenset(name for name, t in columns if t is None))
