"""The Nexmark auction site: persons, auctions and bids, made from a seed and the event's number."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.core.contracts import Connector, SourceSide
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.values import Count, RowRate, choice, whole
from headrace.core.type_parser import parse_type
from headrace.core.types import Field as Column
from headrace.core.types import Schema

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
        None, description="Events in a time, such as `10000/s`; by default as fast as possible."
    )
    seed: Annotated[int, whole(0)] = Field(0, description="Another site for another seed.")
    stream: Annotated[
        Literal["bids", "auctions", "persons"], choice("bids", "auctions", "persons")
    ] = Field("bids", description="Which events become rows.")


def columns(options: Part) -> Schema:
    """The columns of the chosen stream; none of them is ever null."""
    assert isinstance(options, NexmarkSource)
    pairs = (column.split() for column in STREAMS[options.stream].split(", "))
    return Schema(tuple(Column(name, parse_type(type)[0], nullable=False) for name, type in pairs))


NEXMARK = Connector(
    "nexmark",
    "The events of the Nexmark benchmark's auction site.",
    source=SourceSide(NexmarkSource, columns=columns),
)
