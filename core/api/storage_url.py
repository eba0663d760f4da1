"""The URLs of folders in object stores: `s3://bucket/path` and the like.

A URL only locates the folder: credentials come from the environment. So a URL with a password in it
is rejected, and not repeated in messages.
"""

from __future__ import annotations

from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern

SCHEMES = ("s3", "gs", "az")
URL_FORMS = "s3://bucket/path, gs://bucket/path or az://container/path"

_URL = compile_pattern(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BUCKET = compile_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")
_SEGMENT = compile_pattern(r"[A-Za-z0-9!_.*'()=+,@ -]+")


class InvalidStorageUrl(Exception):
    """A text that is not a valid URL: the hint, and whether the text may be repeated."""

    def __init__(self, hint: str, *, is_secret: bool = False) -> None:
        super().__init__(hint)
        self.hint = hint
        self.is_secret = is_secret


@dataclass(frozen=True, slots=True)
class StorageUrl:
    """A folder of a bucket.

    >>> str(parse_storage_url("s3://data/headrace/")), parse_storage_url("s3://data").child("bids").url
    ('s3://data/headrace', 's3://data/bids')
    """

    scheme: str
    bucket: str
    path: str = ""

    @property
    def url(self) -> str:
        """The whole URL."""
        return "/".join(filter(None, (f"{self.scheme}://{self.bucket}", self.path)))

    def child(self, name: str) -> StorageUrl:
        """Return the URL of a folder in this one."""
        return StorageUrl(self.scheme, self.bucket, "/".join(filter(None, (self.path, name))))

    def __str__(self) -> str:
        return self.url


def is_url(text: str) -> bool:
    """Whether a text is meant as a URL, and not as a path of this machine.

    >>> is_url("s3://data"), is_url("hdfs://data"), is_url("./data"), is_url("C:/data")
    (True, True, False, False)
    """
    return _URL.match(text) is not None


def parse_storage_url(text: str) -> StorageUrl:
    """Parse a URL. Raises InvalidStorageUrl.

    >>> parse_storage_url("s3://key:word@data")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    headrace...InvalidStorageUrl: credentials and endpoints come from the environment
    """
    scheme, _, rest = text.partition("://")
    bucket, _, path = rest.partition("/")
    if set("@:") & set(bucket) or set("?#") & set(text):
        raise InvalidStorageUrl(
            "credentials and endpoints come from the environment", is_secret=True
        )
    if not is_url(text):
        raise InvalidStorageUrl("--home names a folder of this machine")
    if scheme not in SCHEMES:
        raise InvalidStorageUrl("")
    if not _BUCKET.fullmatch(bucket):
        raise InvalidStorageUrl("a bucket has 2 to 63 letters, digits, dots and dashes")
    path = path.rstrip("/")
    for segment in path.split("/") if path else ():
        if segment in (".", "..") or not _SEGMENT.fullmatch(segment):
            raise InvalidStorageUrl(f'"{segment}" cannot be a part of a path')
    return StorageUrl(scheme, bucket, path)
