"""Where a store in S3 is: `s3://bucket/prefix`, and the endpoint that has the bucket."""

import re
from urllib.parse import urlsplit

import msgspec

from snapshot.errors import BadAddressError

SCHEME = "s3://"
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}", re.ASCII)
_AWS_HOST = re.compile(r"(^|\.)amazonaws\.com(\.cn)?$")


class S3Address(msgspec.Struct, frozen=True):
    """A bucket and what all keys begin with: any text, without a slash at either end; empty for the whole bucket."""

    bucket: str
    prefix: str = ""

    @classmethod
    def parse(cls, text: str) -> "S3Address":
        """The address that `s3://bucket/prefix` is. Raises BadAddressError."""
        if not text.startswith(SCHEME):
            raise BadAddressError(f"{text!r} is no address in S3: give s3://bucket/prefix")
        bucket, _, prefix = text[len(SCHEME) :].partition("/")
        if not _BUCKET.fullmatch(bucket):
            raise BadAddressError(f"{text!r} names no bucket: {bucket!r} is no bucket's name; give s3://bucket/prefix")
        return cls(bucket, prefix.strip("/"))

    def key(self, *parts: str) -> str:
        """The key of what lies under the prefix."""
        return "/".join((self.prefix, *parts) if self.prefix else parts)

    @classmethod
    def of_snapshot(cls, text: str) -> "tuple[S3Address, str, str | None]":
        """The store, the name and the digest that `s3://bucket/prefix/NAME@DIGEST` is. Raises BadAddressError."""
        whole = cls.parse(text)
        above, _, last = whole.prefix.rpartition("/")
        name, _, digest = last.partition("@")
        if not name:
            raise BadAddressError(f"{text!r} names no snapshot: give s3://bucket/prefix/NAME")
        return cls(whole.bucket, above), name, digest or None

    def __str__(self) -> str:
        return address_of(self.bucket, self.prefix)


def is_s3(text: str) -> bool:
    """Whether `text` is an address in S3, and not a folder. Raises BadAddressError where it is one of another kind."""
    if not text.startswith(SCHEME) and _ADDRESS.match(text):
        raise BadAddressError(f"{text!r} is neither in S3 nor a folder: give s3://bucket/prefix, or a folder's path")
    return text.startswith(SCHEME)


def address_of(bucket: str, key: str) -> str:
    """What messages call a key, or a bucket where there is no key."""
    return f"{SCHEME}{bucket}/{key}" if key else f"{SCHEME}{bucket}"


def check_endpoint(endpoint: str, bucket: str) -> str:
    """`endpoint` itself, when it is one. Raises BadAddressError, also when the bucket is part of it already."""
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadAddressError(f"endpoint {endpoint!r} is no address of a server: give http://host:port or https://host")
    in_path = parts.path.strip("/") == bucket
    if in_path or (parts.hostname.startswith(f"{bucket.lower()}.") and not is_aws(endpoint)):
        host = parts.netloc if in_path else parts.netloc[len(bucket) + 1 :]
        raise BadAddressError(
            f"endpoint {endpoint!r} has the bucket {bucket!r} in it, which would then be in every address twice; "
            f"give {parts.scheme}://{host}, or, if that is the server's own name, set AWS_S3_ADDRESSING_STYLE=path"
        )
    return endpoint


def is_aws(endpoint: str) -> bool:
    """Whether the endpoint is one of Amazon's own, whose buckets have hosts of their own."""
    return bool(_AWS_HOST.search(urlsplit(endpoint).hostname or ""))
