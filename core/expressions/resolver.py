"""The resolver: from the syntax tree to the typed tree.

Names become columns, and calls become functions of the table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from headrace.core.errors.problems import find_nearest_name, suggest_name
from headrace.core.expressions import function
from headrace.core.expressions.casts import build_cast
from headrace.core.expressions.coercion import parse_literal
from headrace.core.expressions.foreign_functions import (
    FUNCTION_SIMILARITY,
    USER_FUNCTION_HINT,
    find_foreign_hint,
)
from headrace.core.expressions.functions import FUNCTIONS
from headrace.core.expressions.functions.spark_functions import (
    AGGREGATE_NAMES,
    SPARK_FUNCTION_NAMES,
)
from headrace.core.expressions.parsing import foreign_syntax, syntax_tree
from headrace.core.expressions.refused_functions import find_refused_family
from headrace.core.expressions.typed import (
    DEFAULT_MAX_VALUE,
    ColumnReference,
    Constant,
    ExpressionError,
    ExpressionErrors,
    FunctionCall,
    LambdaFunction,
    LambdaVariable,
    TypedExpression,
    is_random,
)
from headrace.core.types.data_types import NULL, STRING, Field, Schema, is_nested

TableColumns: TypeAlias = Mapping[str, Mapping[str, str]]
"""Table names, which stand before a dot, with the columns of each and their names in the schema."""

NO_TABLES: TableColumns = MappingProxyType({})

RANDOM_HINT = (
    "compute it in with or select of a step that reads rows of a source, before rows are joined,"
    " aggregated or deduplicated"
)


class ExpressionResolver:
    """Types the expressions over one schema. A subclass may add calls, as aggregates do."""

    def __init__(
        self,
        schema: Schema,
        tables: TableColumns = NO_TABLES,
        max_value: int = DEFAULT_MAX_VALUE,
        *,
        has_row_place: bool = False,
    ) -> None:
        """`max_value` is the largest value, in bytes, that a growing call may make.

        Random values need rows that have a place in the row order (`has_row_place`).
        """
        self.schema = schema
        self.tables = tables
        self.max_value = max_value
        self.has_row_place = has_row_place
        self._lambda_scopes: list[dict[str, LambdaVariable]] = []

    def resolve(self, node: syntax_tree.SyntaxNode) -> TypedExpression:
        """Return the typed node, or raise ExpressionErrors with all errors in it."""
        try:
            return self._resolve_node(node)
        except ExpressionError as error:
            raise ExpressionErrors([error]) from None

    def _resolve_node(self, node: syntax_tree.SyntaxNode) -> TypedExpression:
        match node:
            case syntax_tree.Literal():
                return Constant(
                    node.type, node.value is None, node.span, node.value, node.lost_escape
                )
            case syntax_tree.TypedText():
                text = Constant(STRING, False, node.span, node.text)
                return parse_literal(text, node.type)
            case syntax_tree.Name():
                return self._find_variable(node) or self.resolve_column(node)
            case syntax_tree.Member():
                return self._resolve_member(node)
            case syntax_tree.Cast():
                operand = self.resolve(node.operand)
                return build_cast(operand, node.type, node.span, try_=node.is_try)
            case syntax_tree.CallNode():
                return self.resolve_call(node)
            case syntax_tree.MethodCall():
                return self._refuse_method_call(node)
            case syntax_tree.Star():
                raise ExpressionError("* is allowed only in count(*)", node.span)
        message = "a lambda function (x -> ...) is not a value"
        raise ExpressionError(message, node.span, LAMBDA_HINT)

    def resolve_column(self, node: syntax_tree.Name) -> TypedExpression:
        """Return the column of that name."""
        field = self.schema.get(node.name) or self._find_in_tables(node)
        if field is None and node.name.lower() in CLOCK_FUNCTIONS:
            return resolve_clock(node)
        if field is None:
            hint = suggest_name(node.name, self._unqualified_names()) or self._column_hint(
                node.name
            )
            if not all(self.tables.values()):
                hint += " (semi and anti joins keep only the left columns)"
            raise ExpressionError(f'unknown column "{node.name}"', node.span, hint)
        return ColumnReference(field.type, field.nullable, node.span, field.name)

    def _find_in_tables(self, node: syntax_tree.Name) -> Field | None:
        """Return the column of that name in one of the tables."""
        having = [name for name, columns in self.tables.items() if node.name in columns]
        if len(having) > 1:
            message = f'"{node.name}" is a column of {" and ".join(having)}'
            hint = f"write {' or '.join(f'{name}.{node.name}' for name in having)}"
            raise ExpressionError(message, node.span, hint)
        return self.schema.get(self.tables[having[0]][node.name]) if having else None

    def _unqualified_names(self) -> tuple[str, ...]:
        """Return the names of columns that need no table before them."""
        tables = (name for columns in self.tables.values() for name in columns)
        names = dict.fromkeys((*self._list_variables(), *tables, *self.schema.names))
        return tuple(each for each in names if not each.startswith("__"))

    def _list_variables(self) -> tuple[str, ...]:
        """Return the parameters of the lambda functions around, those of the innermost first."""
        names = (name for scope in reversed(self._lambda_scopes) for name in scope)
        return tuple(dict.fromkeys(names))

    def _column_hint(self, name: str) -> str:
        if name.lower() in foreign_syntax.NAME_HINTS:
            return foreign_syntax.NAME_HINTS[name.lower()]
        if name in self.tables:
            return f"{name} is an input: write {name}.{next(iter(self.tables[name]), 'column')}"
        names = [each for each in self.schema.names if not each.startswith("__")]
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        variables = ", ".join(self._list_variables())
        parameters = f"the parameters are {variables}, " if variables else ""
        return f"{parameters}the columns are {shown}; text goes in quotes: '{name}'"

    def _resolve_member(self, node: syntax_tree.Member) -> TypedExpression:
        base, name = node.base, node.name
        if isinstance(base, syntax_tree.Name) and self._find_variable(base):
            return self._resolve_field(node, self.resolve(base))
        if isinstance(base, syntax_tree.Name) and base.name in self.tables:
            return self._resolve_table_column(node, base.name)
        meant = self._qualified_names(name)
        if (
            isinstance(base, syntax_tree.Name)
            and base.name not in self.schema
            and name in self.schema
            and not meant
        ):
            message = f'unknown column "{base.name}"'
            raise ExpressionError(message, node.span, f"write {name}: names have no table prefix")
        if (
            isinstance(base, syntax_tree.Name)
            and meant
            and base.name not in self._unqualified_names()
        ):
            message = f'unknown input "{base.name}"'
            if near := suggest_name(base.name, tuple(self.tables)):
                raise ExpressionError(message, base.span, near)
            raise ExpressionError(message, node.span, f"write {meant}")
        return self._resolve_field(node, self.resolve(base), meant)

    def _resolve_field(
        self, node: syntax_tree.Member, of: TypedExpression, meant: str = ""
    ) -> TypedExpression:
        """Return a field of a typed value; `meant` are columns of tables with its name."""
        base, name = node.base, node.name
        if not is_nested(of.type) and (meant or name.lower() in FUNCTIONS):
            message = f'no field "{name}": {of.type} has no fields'
            written = base.name if isinstance(base, syntax_tree.Name) else "..."
            hint = f"write {meant or f'{name.lower()}({written})'}"
            raise ExpressionError(message, node.span, hint)
        field = Constant(STRING, False, node.name_span, name)
        return FUNCTIONS["."].resolve(function.TypedCall(".", (of, field), node.span))

    def _qualified_names(self, name: str) -> str:
        """Return the column of that name with its table before it, for each table that has one."""
        having = (f"{table}.{name}" for table, columns in self.tables.items() if name in columns)
        return " or ".join(having)

    def _resolve_table_column(self, node: syntax_tree.Member, table: str) -> TypedExpression:
        """Return a column of one of the tables."""
        columns = self.tables[table]
        field = self.schema.get(columns.get(node.name, ""))
        if field is None and not columns:
            message = (
                f"no columns of {table} are left: semi and anti joins keep only the left columns"
            )
            raise ExpressionError(message, node.span)
        if field is None:
            message = f'unknown column "{node.name}" of {table}'
            if other := self._qualified_names(node.name):
                raise ExpressionError(message, node.span, f"write {other}")
            hint = suggest_name(node.name, tuple(columns)) or f"it has {', '.join(columns)}"
            raise ExpressionError(message, node.name_span, hint)
        return ColumnReference(field.type, field.nullable, node.span, field.name)

    def resolve_call(self, node: syntax_tree.CallNode) -> TypedExpression:
        """Return the typed call of a function or operator of the table."""
        row = FUNCTIONS.get(node.name)
        if row is None:
            raise self._build_unknown_function_error(node)
        if node.is_distinct or node.filter or node.within_group:
            word = "distinct" if node.is_distinct else "filter" if node.filter else "within group"
            message = f"{word} is for aggregates, and {node.name} is not one"
            raise ExpressionError(message, node.name_span)
        if row.is_higher_order:
            arguments = self._resolve_with_lambdas(node)
        else:
            arguments = self.resolve_arguments(node.arguments)
        typed = row.resolve(function.TypedCall(node.name, arguments, node.span))
        if is_random(typed) and not (self.has_row_place and not self._lambda_scopes):
            raise _build_random_error(node, in_lambda=bool(self._lambda_scopes))
        if isinstance(typed, FunctionCall) and typed.growth:
            return replace(typed, growth=replace(typed.growth, max_bytes=self.max_value))
        return typed

    def resolve_arguments(
        self, nodes: Iterable[syntax_tree.SyntaxNode]
    ) -> tuple[TypedExpression, ...]:
        """Return the typed arguments; the errors of all of them are raised at once."""
        typed: list[TypedExpression] = []
        errors: list[ExpressionError] = []
        for node in nodes:
            try:
                typed.append(self.resolve(node))
            except ExpressionErrors as failed:
                errors.extend(failed.errors)
        if errors:
            raise ExpressionErrors(errors)
        return tuple(typed)

    def _resolve_with_lambdas(self, node: syntax_tree.CallNode) -> tuple[TypedExpression, ...]:
        """Return the typed arguments, with lambda functions yet to be typed by the function."""
        values = [each for each in node.arguments if not isinstance(each, syntax_tree.Lambda)]
        for each in values[1:]:
            if isinstance(each, syntax_tree.Name) and self._names_function(each):
                message = f"{node.name} wants a lambda function, got the name of one"
                raise ExpressionError(message, each.span, f"write x -> {each.name}(x)")
        typed = iter(self.resolve_arguments(values))
        return tuple(
            function.UntypedLambda(
                NULL, True, each.span, each.parameters, partial(self._type_lambda, each)
            )
            if isinstance(each, syntax_tree.Lambda)
            else next(typed)
            for each in node.arguments
        )

    def _names_function(self, node: syntax_tree.Name) -> bool:
        """Whether a name is that of a function, and of nothing else."""
        known = node.name in self._unqualified_names() or node.name.lower() in CLOCK_FUNCTIONS
        return node.name.lower() in FUNCTIONS and not known

    def _type_lambda(
        self, node: syntax_tree.Lambda, values: Sequence[TypedExpression]
    ) -> LambdaFunction:
        """Return the typed lambda function of parameters with the types of these values."""
        depth = len(self._lambda_scopes)
        parameters = tuple(
            LambdaVariable(value.type, value.nullable, node.span, name, f"__{depth}.{name}")
            for name, value in zip(node.parameters, values, strict=True)
        )
        self._lambda_scopes.append({each.name: each for each in parameters})
        try:
            body = self.resolve(node.body)
        finally:
            self._lambda_scopes.pop()
        return LambdaFunction(body.type, body.nullable, node.span, parameters, body)

    def _find_variable(self, node: syntax_tree.Name) -> LambdaVariable | None:
        """Return the parameter of that name of the innermost lambda function that has one."""
        for scope in reversed(self._lambda_scopes):
            if variable := scope.get(node.name):
                return replace(variable, span=node.span)
        return None

    def _refuse_method_call(self, node: syntax_tree.MethodCall) -> TypedExpression:
        """Raise the error about `text.upper()`, with the call of a function if there is one."""
        name = node.name.lower()
        message = f"a value has no methods, got {node.name}(...)"
        call = syntax_tree.CallNode(node.span, name, node.span, (node.subject, *node.arguments))
        if self._is_known_call(call):
            raise ExpressionError(message, node.span, f"write {node.call}")
        raise ExpressionError(message, node.span, self._suggest_function(call))

    def list_function_names(self) -> Collection[str]:
        """Return the names that a call may have here."""
        return FUNCTIONS

    def _is_known_call(self, node: syntax_tree.CallNode) -> bool:
        """Whether the function exists and takes these arguments, as far as they have types."""
        if node.name not in self.list_function_names():
            return False
        try:
            self.resolve_arguments(node.arguments)
        except ExpressionErrors:
            return True
        try:
            self.resolve_call(node)
        except (ExpressionError, ExpressionErrors):
            return False
        return True

    def _build_unknown_function_error(self, node: syntax_tree.CallNode) -> ExpressionError:
        """Return the error for a function that is an aggregate, refused, not built or misspelt."""
        if node.name in AGGREGATE_NAMES:
            hint = "write it under aggregate: of a step"
            return ExpressionError(f"{node.name} is an aggregate", node.name_span, hint)
        if family := find_refused_family(node.name):
            message = f'function "{node.name}" is not supported: {family.reason}'
            return ExpressionError(message, node.name_span, family.way_out)
        unbuilt = node.name in SPARK_FUNCTION_NAMES
        message = f'function "{node.name}" is not built yet'
        message = message if unbuilt else f'unknown function "{node.name}"'
        return ExpressionError(message, node.name_span, self._suggest_function(node))

    def _suggest_function(self, node: syntax_tree.CallNode) -> str:
        """Return the hint for a function that does not exist: what is suggested takes the call."""
        name = node.name
        if hint := find_foreign_hint(name):
            return hint
        unbuilt = name in SPARK_FUNCTION_NAMES
        known = set(filter(str.isidentifier, self.list_function_names()))
        if unbuilt:
            # The name is not misspelt: suggest only another spelling of it.
            known = {each for each in known if _normalize_name(each) == _normalize_name(name)}
        while near := find_nearest_name(name, sorted(known), FUNCTION_SIMILARITY):
            if self._is_known_call(replace(node, name=near)):
                return f'did you mean "{near}"?'
            known.remove(near)
        return (
            USER_FUNCTION_HINT
            if unbuilt
            else f"`headrace functions` lists them; {USER_FUNCTION_HINT}"
        )


LAMBDA_HINT = "it is an argument of such functions as transform(array, x -> x + 1)"
CLOCK_FUNCTIONS = ("current_timestamp", "current_date", "current_time", "localtime")


def resolve_clock(node: syntax_tree.Name) -> TypedExpression:
    """Return the call of `current_timestamp` or `current_date` written without parentheses."""
    return FUNCTIONS[node.name.lower()].resolve(
        function.TypedCall(node.name.lower(), (), node.span)
    )


def _build_random_error(node: syntax_tree.CallNode, *, in_lambda: bool) -> ExpressionError:
    """Return the error for random values where they have no row, or several values for a row."""
    if in_lambda:
        message = f"{node.name} has one value for a row, and not one for each element"
        return ExpressionError(message, node.span, "explode the array first")
    message = f"{node.name} makes its values from the place of a row in its source"
    return ExpressionError(f"{message}, and there is none here", node.span, RANDOM_HINT)


def _normalize_name(name: str) -> str:
    """Normalize the spelling of a name: no underscores and no plural."""
    return name.replace("_", "").removesuffix("s")
