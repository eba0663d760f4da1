"""Masking of secrets in texts that a job shows, such as samples of its rows."""

from __future__ import annotations

from collections.abc import Collection

import orjson

from headrace.core.pipeline.text import MASK


def mask_secrets(text: str, secrets: Collection[str], *, is_cut: bool = False) -> str:
    """Return a text without secrets, as they are and as in a text of JSON.

    `is_cut`: the text ends anywhere, perhaps within a secret.

    >>> mask_secrets('{"key": "s3cret!"}', ["s3cret!"])
    '{"key": "****"}'
    >>> mask_secrets('{"key": "s3cr', ["s3cret!"], is_cut=True)
    '{"key": "****'
    """
    forms = {form for each in secrets for form in (each, orjson.dumps(each).decode()[1:-1])}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, MASK)
    if is_cut:
        ends = (form[:size] for form in forms for size in range(1, len(form)))
        longest = max((end for end in ends if text.endswith(end)), key=len, default="")
        if longest:
            text = text.removesuffix(longest) + MASK
    return text
