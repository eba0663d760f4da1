"""The lengths of the fields of intervals."""

UNITS = {
    **{"year": 12, "month": 1, "day": 86_400_000_000, "hour": 3_600_000_000},
    **{"minute": 60_000_000, "second": 1_000_000},
}
"""The months or microseconds of a field."""
