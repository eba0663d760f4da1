"""Manifests of checkpoints without a pipeline, which only name blobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from headrace.core.api.snapshots import Blob, Manifest

PART = {"subtasks": 1, "from": [], "origin": "", "before": [], "then": []}
FINGERPRINT: Mapping[str, object] = {
    "key": [],
    "window": "",
    "does": "aggregate",
    "calls": {},
    "aggregates": {},
    "columns": {},
    "states": [],
    "lateness_us": 0,
    "ttl": "",
    "having": False,
}


def build_blob_manifest(
    blobs: Iterable[Blob] = (),
    states: Mapping[str, object] = MappingProxyType({}),
    sinks: Mapping[str, object] = MappingProxyType({}),
    **more: object,
) -> Manifest:
    """Build a manifest that names these blobs, with these values."""
    return {
        "version": "0",
        "pipeline": "bids",
        "time": "2026-01-31T08:00:00Z",
        "ended": False,
        "drained": False,
        "key_groups": 128,
        "parts": dict.fromkeys((*states, *sinks), PART),
        "kept": dict.fromkeys(states, FINGERPRINT),
        "sources": {},
        "states": dict(states),
        "sinks": dict(sinks),
        "counts": {"parts": {}, "failed": {}},
        "blobs": [blob.to_document() for blob in blobs],
        **more,
    }
