"""Formats: how records are written as bytes, for any connector that carries bytes."""

from __future__ import annotations

from headrace.connectors.formats.contract import BytesEncoder, Decoder
from headrace.connectors.formats.opening import decoder, encoder

__all__ = ["BytesEncoder", "Decoder", "decoder", "encoder"]
