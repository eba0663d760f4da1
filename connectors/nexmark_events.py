"""Nexmark's events as functions of the seed and the event's number, a column at a time.

Of 50 events the first is a person, the next three are auctions, the rest are bids, as in the
original generator, and so are the ranges of values and the shares of popular ids: half of the bids
go to the newest hundredth auction, three quarters come from a hot bidder. Random numbers are hashes
of (seed, purpose, event number), so any event can be computed without those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

PERSONS_PER_GROUP, AUCTIONS_PER_GROUP, GROUP_EVENTS = 1, 3, 50
FIRST_PERSON = FIRST_AUCTION = 1000
FIRST_CATEGORY = 10
HOT_ID_INTERVAL = 100
START_US = 1_767_225_600_000_000  # 2026-01-01
SECOND_US = 1_000_000

_GROUP_SHARES = {
    "persons": (0, PERSONS_PER_GROUP),
    "auctions": (PERSONS_PER_GROUP, AUCTIONS_PER_GROUP),
    "bids": (4, 46),
}
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
    *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
)
_FIRST_NAMES = (
    "Peter",
    "Paul",
    "Luke",
    "John",
    "Saul",
    "Vicky",
    "Kate",
    "Julie",
    "Sarah",
    "Deiter",
    "Walter",
)
_LAST_NAMES = (
    "Shultz",
    "Abrams",
    "Spencer",
    "White",
    "Bartels",
    "Walton",
    "Smith",
    "Jones",
    "Noris",
)
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")


def list_event_numbers(stream: str, first: int, last: int) -> pl.Series:
    """Return the numbers of a stream's events from `first` up to, not including, `last`."""
    import polars as pl

    offset, share = _GROUP_SHARES[stream]
    numbers = pl.int_range(first, last, dtype=pl.Int64, eager=True)
    place = numbers % GROUP_EVENTS
    return numbers.filter((place >= offset) & (place < offset + share))


def count_events_for_rows(stream: str, rows: int) -> int:
    """Count the events of all streams needed for that many rows of one stream.

    >>> count_events_for_rows("bids", 1), count_events_for_rows("persons", 2)
    (5, 51)
    """
    offset, share = _GROUP_SHARES[stream]
    groups, rest = divmod(rows - 1, share)
    return groups * GROUP_EVENTS + offset + rest + 1


class NexmarkEvents:
    """Computes columns of one stream; `step_us` is the event time between two events."""

    def __init__(self, stream: str, seed: int, step_us: float) -> None:
        self._stream = stream
        self._seed = seed
        self._step_us = step_us

    def make_frame(self, first: int, last: int, columns: Sequence[str]) -> pl.DataFrame:
        """Return these columns of the events from `first` up to, not including, `last`."""
        import polars as pl

        events = pl.DataFrame({"n": list_event_numbers(self._stream, first, last)})
        makers = _STREAM_COLUMNS[self._stream]
        return events.select(makers[name](self).alias(name) for name in columns)

    def random_u64(self, purpose: int) -> pl.Expr:
        """Return a random u64 for each event, different for each purpose (splitmix64)."""
        import polars as pl

        def u64(value: int) -> pl.Expr:
            return pl.lit(value % (1 << 64), dtype=pl.UInt64)

        start = self._seed * 0x9E3779B97F4A7C15 + purpose * 0xD1B54A32D192ED03
        z = pl.col("n").cast(pl.UInt64) * u64(0x9E3779B97F4A7C15) + u64(start)
        z = (z ^ (z // u64(1 << 30))) * u64(0xBF58476D1CE4E5B9)
        z = (z ^ (z // u64(1 << 27))) * u64(0x94D049BB133111EB)
        return z ^ (z // u64(1 << 31))

    def random_below(self, purpose: int, limit: pl.Expr | int) -> pl.Expr:
        """Return a random whole number from 0 up to, not including, a limit."""
        import polars as pl

        top = limit if isinstance(limit, int) else limit.cast(pl.UInt64)
        return (self.random_u64(purpose) % top).cast(pl.Int64)

    def random_fraction(self, purpose: int) -> pl.Expr:
        """Return a random double from 0 up to, not including, 1."""
        return (self.random_u64(purpose) // (1 << 11)).cast(float) / float(1 << 53)

    def pick_word(self, purpose: int, words: tuple[str, ...]) -> pl.Expr:
        """Return one of the words at random."""
        import polars as pl

        return pl.lit(pl.Series(words)).gather(self.random_below(purpose, len(words)))

    def random_price(self, purpose: int) -> pl.Expr:
        """Return a random price in cents from 100 to 100 million, uniform in its logarithm."""
        import polars as pl

        return (pl.lit(10.0).pow(self.random_fraction(purpose) * 6) * 100).round().cast(pl.Int64)

    def event_time_us(self) -> pl.Expr:
        """Return the event time in microseconds."""
        import polars as pl

        elapsed = (pl.col("n").cast(float) * self._step_us).cast(pl.Int64)
        return elapsed + START_US

    def event_time(self, after_us: pl.Expr | int = 0) -> pl.Expr:
        """Return the event time, or an instant that many microseconds after it."""
        import polars as pl

        return (self.event_time_us() + after_us).cast(pl.Datetime("us", "UTC"))

    def pick_filler(self) -> pl.Expr:
        """Return a filler text of varying length."""
        return self.pick_word(90, _filler_texts())


def _newest_id(base: int, share: int, first: int) -> pl.Expr:
    """Return the id of the newest person or auction at the time of the event."""
    import polars as pl

    group = pl.col("n") // GROUP_EVENTS
    place = (pl.col("n") % GROUP_EVENTS - base).clip(-1, share - 1)
    return group * share + place + first


def _newest_person() -> pl.Expr:
    return _newest_id(0, PERSONS_PER_GROUP, FIRST_PERSON)


def _newest_auction() -> pl.Expr:
    import polars as pl

    return pl.max_horizontal(
        _newest_id(PERSONS_PER_GROUP, AUCTIONS_PER_GROUP, FIRST_AUCTION), FIRST_AUCTION
    )


def _pick_hot_id(
    events: NexmarkEvents, purpose: int, ratio: int, last: pl.Expr, first: int, shift: int
) -> pl.Expr:
    """Return mostly the newest popular id, else one of the newest hundred."""
    import polars as pl

    popular = (last // HOT_ID_INTERVAL) * HOT_ID_INTERVAL + shift
    oldest = pl.max_horizontal(last - HOT_ID_INTERVAL + 1, first)
    any_of = oldest + events.random_below(purpose + 1, last - oldest + 1)
    is_hot = events.random_below(purpose, ratio) > 0
    return pl.when(is_hot).then(pl.max_horizontal(popular, first)).otherwise(any_of)


@cache
def _filler_texts() -> tuple[str, ...]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return tuple(
        "".join(letters[(at * 7 + place * (at % 11 + 3)) % 26] for place in range(at % 32))
        for at in range(1024)
    )


@cache
def _long_fillers() -> tuple[str, ...]:
    return tuple(word for word in _filler_texts() if len(word) >= 5)


@cache
def _channel_table() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return channels and their URLs: four hot channels are half of the table, so of the bids."""
    cold = tuple(f"channel-{at}" for at in range(9996))
    names = tuple(_HOT_CHANNELS[at % 4] for at in range(9996)) + cold
    words = _long_fillers()
    site = "https://www.nexmark.com"
    urls = tuple(
        f"{site}/{words[at * 31 % len(words)][:5]}/item{at % 1000}/item.htm?query=1"
        + ("" if at < 9996 else f"&channel_id={at * 7919 % 1_000_003}")
        for at in range(len(names))
    )
    return names, urls


def _person_name(events: NexmarkEvents) -> pl.Expr:
    import polars as pl

    return pl.concat_str(
        events.pick_word(11, _FIRST_NAMES), pl.lit(" "), events.pick_word(12, _LAST_NAMES)
    )


def _email_address(events: NexmarkEvents) -> pl.Expr:
    import polars as pl

    words = events.pick_word(13, _long_fillers()), events.pick_word(14, _long_fillers())
    return pl.concat_str(words[0], pl.lit("@"), words[1], pl.lit(".com"))


def _credit_card_number(events: NexmarkEvents) -> pl.Expr:
    import polars as pl

    parts = [events.random_below(15 + at, 10_000).cast(pl.String).str.zfill(4) for at in range(4)]
    return pl.concat_str(parts, separator=" ")


_BID_COLUMNS: dict[str, Callable[[NexmarkEvents], pl.Expr]] = {
    "auction": lambda e: _pick_hot_id(e, 1, 2, _newest_auction(), FIRST_AUCTION, 0),
    "bidder": lambda e: _pick_hot_id(e, 3, 4, _newest_person(), FIRST_PERSON, 1),
    "price": lambda e: e.random_price(5),
    "channel": lambda e: e.pick_word(6, _channel_table()[0]),
    "url": lambda e: e.pick_word(6, _channel_table()[1]),
    "date_time": lambda e: e.event_time(),
    "extra": lambda e: e.pick_filler(),
}
_AUCTION_COLUMNS: dict[str, Callable[[NexmarkEvents], pl.Expr]] = {
    "id": lambda e: _newest_auction(),
    "item_name": lambda e: e.pick_word(21, _long_fillers()),
    "description": lambda e: e.pick_word(22, _long_fillers()),
    "initial_bid": lambda e: e.random_price(23),
    "reserve": lambda e: e.random_price(23) + e.random_price(24),
    "date_time": lambda e: e.event_time(),
    "expires": lambda e: e.event_time(e.random_below(25, 20 * SECOND_US) + SECOND_US),
    "seller": lambda e: _pick_hot_id(e, 26, 4, _newest_person(), FIRST_PERSON, 0),
    "category": lambda e: e.random_below(28, 5) + FIRST_CATEGORY,
    "extra": lambda e: e.pick_filler(),
}
_PERSON_COLUMNS: dict[str, Callable[[NexmarkEvents], pl.Expr]] = {
    "id": lambda e: _newest_person(),
    "name": _person_name,
    "email_address": _email_address,
    "credit_card": _credit_card_number,
    "city": lambda e: e.pick_word(19, _CITIES),
    "state": lambda e: e.pick_word(20, _STATES),
    "date_time": lambda e: e.event_time(),
    "extra": lambda e: e.pick_filler(),
}
_STREAM_COLUMNS = {"bids": _BID_COLUMNS, "auctions": _AUCTION_COLUMNS, "persons": _PERSON_COLUMNS}
