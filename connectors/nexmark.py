"""The Nexmark auction site: persons, auctions and bids, computed from a seed and event numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from headrace.connectors.nexmark_events import NexmarkEvents, count_events_for_rows
from headrace.connectors.numbered_rows import (
    NumberedRows,
    check_split,
    make_batch_opener,
    make_reader_opener,
    make_source_opener,
)
from headrace.core.api.run_context import RunContext
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.values import Count, RowRate, choice_of, whole_number
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connector, SourceSide
from headrace.core.types.data_types import Field as Column
from headrace.core.types.data_types import Schema
from headrace.core.types.type_parser import parse_type

if TYPE_CHECKING:
    import polars as pl

STREAMS = {
    "bids": "auction bigint, bidder bigint, price bigint, channel string, url string, "
    "date_time timestamp, extra string",
    "auctions": "id bigint, item_name string, description string, initial_bid bigint, "
    "reserve bigint, date_time timestamp, expires timestamp, seller bigint, category bigint, "
    "extra string",
    "persons": "id bigint, name string, email_address string, credit_card string, city string, "
    "state string, date_time timestamp, extra string",
}


class NexmarkSource(DocumentModel):
    """One of the three streams of one run of the site."""

    events: Count | None = Field(
        None,
        description="Events of all three streams together (of 50, 1 is a person, 3 are auctions, "
        "46 are bids); by default without end.",
    )
    rate: RowRate | None = Field(
        None,
        description="Events per second, minute or hour, as in `10000/s`; by default unlimited.",
    )
    seed: Annotated[int, whole_number(0)] = Field(
        0, description="A different seed gives different events."
    )
    stream: Annotated[
        Literal["bids", "auctions", "persons"], choice_of("bids", "auctions", "persons")
    ] = Field("bids", description="Which events become rows.")


def list_columns(options: DocumentModel) -> Schema:
    """Return the columns of the chosen stream; none of them is ever null."""
    assert isinstance(options, NexmarkSource)
    pairs = (column.split() for column in STREAMS[options.stream].split(", "))
    return Schema(tuple(Column(name, parse_type(type)[0], nullable=False) for name, type in pairs))


def _build_rows(source: nodes.Source, run_context: RunContext) -> NumberedRows:
    options = source.options
    assert isinstance(options, NexmarkSource)
    stream, count = options.stream, options.events
    if run_context.row_limit is not None:
        enough = count_events_for_rows(stream, run_context.row_limit)
        count = enough if count is None else min(count, enough)
    per_second = options.rate.per_second if options.rate else None
    # Without a rate, event time advances as if 10,000 events came a second.
    events = NexmarkEvents(stream, options.seed, 1_000_000 / (per_second or 10_000))

    def make(first: int, last: int) -> pl.DataFrame:
        return events.make_frame(first, last, source.decoded_columns)

    return NumberedRows(source.name, make, count, per_second, source.parallelism)


def _is_bounded(options: DocumentModel) -> bool:
    assert isinstance(options, NexmarkSource)
    return options.events is not None


NEXMARK = Connector(
    "nexmark",
    "The events of the Nexmark benchmark's auction site.",
    source=SourceSide(
        NexmarkSource,
        columns=list_columns,
        open=make_source_opener(_build_rows),
        open_readers=make_reader_opener(_build_rows),
        check_split=check_split,
        open_batch=make_batch_opener(_build_rows),
        is_bounded=_is_bounded,
        bounding_hint="add events, as in events: 1000000",
    ),
)
