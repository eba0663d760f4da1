"""The Nexmark auction site: persons, auctions and bids, computed from a seed and event numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from headrace.connectors.nexmark_events import Events, events_for_rows
from headrace.connectors.numbered import Numbers, opening, piecing
from headrace.core.connector import Connector, SourceSide
from headrace.core.contracts import Surroundings
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.values import Count, RowRate, choice, whole
from headrace.core.plan import nodes
from headrace.core.type_parser import parse_type
from headrace.core.types import Field as Column
from headrace.core.types import Schema

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


class NexmarkSource(Part):
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
    seed: Annotated[int, whole(0)] = Field(
        0, description="A different seed gives different events."
    )
    stream: Annotated[
        Literal["bids", "auctions", "persons"], choice("bids", "auctions", "persons")
    ] = Field("bids", description="Which events become rows.")


def columns(options: Part) -> Schema:
    """Return the columns of the chosen stream; none of them is ever null."""
    assert isinstance(options, NexmarkSource)
    pairs = (column.split() for column in STREAMS[options.stream].split(", "))
    return Schema(tuple(Column(name, parse_type(type)[0], nullable=False) for name, type in pairs))


def _numbers(source: nodes.Source, surroundings: Surroundings) -> Numbers:
    options = source.options
    assert isinstance(options, NexmarkSource)
    stream, count = options.stream, options.events
    if surroundings.limit is not None:
        enough = events_for_rows(stream, surroundings.limit)
        count = enough if count is None else min(count, enough)
    per_second = options.rate.per_second if options.rate else None
    # Without a rate, event time advances as if 10,000 events came a second.
    events = Events(stream, options.seed, 1_000_000 / (per_second or 10_000))

    def make(first: int, last: int) -> pl.DataFrame:
        return events.frame(first, last, source.columns)

    return Numbers(source.name, make, count, per_second, source.parallelism)


def _bounded(options: Part) -> bool:
    assert isinstance(options, NexmarkSource)
    return options.events is not None


NEXMARK = Connector(
    "nexmark",
    "The events of the Nexmark benchmark's auction site.",
    source=SourceSide(
        NexmarkSource,
        columns=columns,
        open=opening(_numbers),
        pieces=piecing(_numbers),
        bounded=_bounded,
        to_end="add events, as in events: 1000000",
    ),
)
