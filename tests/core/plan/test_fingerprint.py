"""Stored fingerprints that cannot be read."""

import pytest

from headrace.core.api.snapshots import DamagedSnapshot
from headrace.core.plan.fingerprint import parse_fingerprint

STORED = {
    "key": [["auction", "bigint"]],
    "window": "",
    "does": "aggregate",
    "calls": {},
    "aggregates": {},
    "columns": {},
    "states": ["keys"],
    "lateness_us": 0,
    "ttl": "",
    "having": False,
}


@pytest.mark.parametrize("key", STORED)
def test_a_fingerprint_without_a_key_is_refused_by_name(key: str) -> None:
    assert parse_fingerprint("totals", {"totals": STORED}).states == ("keys",)
    stored = {name: value for name, value in STORED.items() if name != key}
    with pytest.raises(DamagedSnapshot, match=f"fingerprint of totals .* lacks '{key}'") as caught:
        parse_fingerprint("totals", {"totals": stored})
    assert "another checkpoint" in caught.value.hint


def test_a_fingerprint_of_another_shape_is_refused() -> None:
    with pytest.raises(DamagedSnapshot, match="fingerprint of totals"):
        parse_fingerprint("totals", {"totals": []})
