"""The options of `sql:` as a lookup table in the pipeline document."""

from __future__ import annotations

from typing import Annotated

from headrace.connectors.tables.urls import Url, make_url_reading
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.values import Words, whole_number


class SqlOptions(DocumentModel):
    """One query looks up the keys of many rows; keys must be unique."""

    origin = ("url", "table")

    url: Annotated[Url, make_url_reading("postgresql+psycopg://user:password@host/database")] = (
        Field(
            description="The database, as SQLAlchemy writes it; `sqlite:///customers.db` is a "
            "file, relative to the pipeline's. Only its host and path are shown."
        )
    )
    table: Words = Field(description="The table, or a view.")
    schema_: Words | None = Field(
        None, alias="schema", description="The table's schema; by default the user's."
    )
    keys_per_query: Annotated[int, whole_number(1, 10_000)] = Field(
        500, description="The maximum number of keys in one query."
    )
