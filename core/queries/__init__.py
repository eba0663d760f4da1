"""Queries: Spark SQL's `select` over rows in memory, by the expressions of pipelines.

query = parse_query("select city, count(*) as n from orders group by city")
rows = run_query(type_query(query, schema), frame)

Tests: tests/core/queries, and tests/core/spark/test_random_queries.py.
"""

from headrace.core.queries.execution import run_query
from headrace.core.queries.parser import SelectQuery, parse_query
from headrace.core.queries.typed_query import TypedQuery, type_query

__all__ = ["SelectQuery", "TypedQuery", "parse_query", "run_query", "type_query"]
