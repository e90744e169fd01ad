"""One bucket by boto3: small objects, uploads, lists, and signed addresses for whoever reads the bytes.

Its import takes longer than many a thaw: only what has a store in S3 imports this.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from boto3.exceptions import S3UploadFailedError
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError
from botocore.utils import get_environ_proxies

from snapshot import s3_errors
from snapshot.errors import RemoteError, SnapshotError
from snapshot.s3_address import address_of
from snapshot.s3_connection import NUM_STREAMS, Connection, S3Options, connect

__all__ = ["S3Client", "S3Options"]

T = TypeVar("T")

_SIGNED_FOR_S = 3600
_SIGN_AGAIN_AFTER_S = 600  # some servers take an address for no longer than a request, which is 15 minutes
_MAX_DELETED = 1000
_PART_BYTES = 16 << 20


class S3Client:
    """A bucket, for any number of threads.

    Credentials that have expired are looked up anew, once for each call; when that does not help, CredentialsError.
    All methods raise RemoteError and BadAddressError.
    """

    def __init__(self, bucket: str, options: S3Options | None = None) -> None:
        self.bucket = bucket
        self._options = options or S3Options()
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._region: str | None = None  # where the bucket turned out to be

    @property
    def endpoint(self) -> str:
        """The server's address."""
        return str(self._connected().client.meta.endpoint_url)

    @property
    def ca_bundle(self) -> str | None:
        """The file of certificates that the server's is checked by."""
        return self._connected().ca_bundle

    def proxy_of(self, url: str) -> str | None:
        """The proxy by which a signed address is asked, as the environment says (HTTPS_PROXY, NO_PROXY); or none."""
        proxy = get_environ_proxies(url).get(url.partition(":")[0])
        return str(proxy) if proxy else None

    def address(self, key: str = "") -> str:
        """What messages call a key."""
        return address_of(self.bucket, key)

    def get(self, key: str) -> bytes | None:
        """The content of a small object; None when there is none."""

        def read(client: Any) -> bytes:
            # Closed, not entered: entered, it is the bare stream, which neither counts its bytes nor names its errors.
            with contextlib.closing(client.get_object(Bucket=self.bucket, Key=key)["Body"]) as body:
                return bytes(body.read())

        def read_whole(client: Any) -> bytes:
            for _ in range(
                self._options.num_attempts - 1
            ):  # boto3 asks again until an answer begins, not until it ends
                with contextlib.suppress(HTTPClientError, IncompleteReadError):
                    return read(client)
            return read(client)

        return self._unless_missing(key, read_whole)

    def size(self, key: str) -> int | None:
        """Bytes of an object; None when there is none."""

        def head(client: Any) -> int:
            try:
                return int(client.head_object(Bucket=self.bucket, Key=key)["ContentLength"])
            except ClientError as error:
                if s3_errors.code_of(error) not in ("400", "403"):
                    raise
                # An answer to HEAD has no body to say why: ask in a way that has.
                client.get_object(Bucket=self.bucket, Key=key, Range="bytes=0-0")["Body"].close()
                raise

        return self._unless_missing(key, head)

    def put(self, key: str, content: bytes) -> None:
        """Write a small object."""
        self._call(key, lambda client: client.put_object(Bucket=self.bucket, Key=key, Body=content))

    def upload(self, key: str, path: Path, on_bytes: Callable[[int], None]) -> None:
        """Write a file, in parallel parts where it is large; `on_bytes` hears of bytes as they go, from any thread."""
        config = TransferConfig(
            multipart_threshold=2 * _PART_BYTES, multipart_chunksize=_PART_BYTES, max_concurrency=NUM_STREAMS
        )
        self._call(
            key, lambda client: client.upload_file(str(path), self.bucket, key, Callback=on_bytes, Config=config)
        )

    def folders(self, prefix: str) -> list[str]:
        """The names that follow `prefix` and end at a slash."""
        pages = self._pages(prefix, Delimiter="/")
        found = [str(one["Prefix"]) for page in pages for one in page.get("CommonPrefixes", ())]
        return [name for name in (one[len(prefix) : -1] for one in found) if name]

    def objects(self, prefix: str) -> list[tuple[str, float]]:
        """What follows `prefix` in the keys of all objects, and their ages in seconds by this machine's clock."""
        now = time.time()
        found = [one for page in self._pages(prefix) for one in page.get("Contents", ())]
        return [(str(one["Key"])[len(prefix) :], now - one["LastModified"].timestamp()) for one in found]

    def etags(self, prefix: str) -> list[tuple[str, str]]:
        """What follows `prefix` in the keys of all objects, and what changes when they do: their ETags and times."""
        found = [one for page in self._pages(prefix) for one in page.get("Contents", ())]
        return [
            (str(one["Key"])[len(prefix) :], f"{one.get('ETag', '')} {one['Size']} {one['LastModified'].timestamp()}")
            for one in found
        ]

    def download(self, key: str, path: Path) -> None:
        """Read an object into a file, in parallel parts where it is large."""
        config = TransferConfig(
            multipart_threshold=2 * _PART_BYTES, multipart_chunksize=_PART_BYTES, max_concurrency=NUM_STREAMS
        )
        self._call(key, lambda client: client.download_file(self.bucket, key, str(path), Config=config))

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; what is not there is as good as removed."""
        for begin in range(0, len(keys), _MAX_DELETED):
            some = keys[begin : begin + _MAX_DELETED]
            for one in self._call(some[0], lambda client: self._delete_together(client, some)):  # noqa: B023
                where = self.address(one.get("Key", ""))
                raise s3_errors.refused(one.get("Code", ""), one.get("Message", ""), where, self.endpoint)

    def _delete_together(self, client: Any, keys: Sequence[str]) -> list[dict[str, str]]:
        """Remove objects in one request, or one by one where the server has no such request; return what failed."""
        wanted = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        try:
            return list(client.delete_objects(Bucket=self.bucket, Delete=wanted).get("Errors", ()))
        except ClientError as error:
            if not s3_errors.is_unknown_request(s3_errors.code_of(error)):
                raise
        for key in keys:
            client.delete_object(Bucket=self.bucket, Key=key)
        return []

    def signed(self, key: str) -> str:
        """An address at which the object can be read for a while, any range of it, without more credentials."""
        connection = self._at_region(self._connected())
        url, signed_at = connection.signed.get(key, ("", -_SIGN_AGAIN_AFTER_S))
        if time.monotonic() - signed_at >= _SIGN_AGAIN_AFTER_S or not url:
            parameters = {"Bucket": self.bucket, "Key": key}
            url = self._call(
                key,
                lambda client: str(
                    client.generate_presigned_url("get_object", Params=parameters, ExpiresIn=_SIGNED_FOR_S)
                ),
            )
            connection.signed[key] = (url, time.monotonic())
        return url

    def renew(self, url: str | None = None) -> None:
        """Look the credentials up anew; where the signed `url` was refused, only if nobody has done so since."""
        with self._lock:
            connection = self._connection
            if connection is None or (url is not None and all(url != one for one, _ in connection.signed.values())):
                return
            self._connection = None

    def _pages(self, prefix: str, **more: str) -> Iterator[Any]:
        def all_pages(client: Any) -> list[Any]:
            return list(client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix, **more))

        pages = self._call(prefix, all_pages)
        if pages and pages[-1].get("IsTruncated"):  # where boto3 ends without a word, as after the last page
            what = f"{self.endpoint} lists only {len(pages)} pages of what it has, and does not say how to go on"
            raise RemoteError(self.address(prefix), f"{what}; use a server that keeps to ListObjectsV2")
        yield from pages

    def _unless_missing(self, key: str, ask: Callable[[Any], T]) -> T | None:
        def asked(client: Any) -> T | None:
            try:
                return ask(client)
            except ClientError as error:
                if s3_errors.is_missing(s3_errors.code_of(error)):
                    return None
                raise

        return self._call(key, asked)

    def _call(self, key: str, ask: Callable[[Any], T]) -> T:
        connection = self._connected()
        try:
            return ask(connection.client)
        except (ClientError, BotoCoreError, S3UploadFailedError) as error:
            cause = _cause(error)
            if not s3_errors.is_stale(s3_errors.code_of(cause)):
                raise self._translated(cause, key) from error
        with self._lock:
            if self._connection is connection:
                self._connection = None
        try:
            return ask(self._connected().client)
        except (ClientError, BotoCoreError, S3UploadFailedError) as error:
            raise self._translated(_cause(error), key) from error

    def _translated(self, error: Exception, key: str) -> SnapshotError:
        connection = self._connection
        endpoint = connection.client.meta.endpoint_url if connection else self._options.endpoint_url or "S3"
        return s3_errors.translated(error, self.address(key), endpoint)

    def _at_region(self, connection: Connection) -> Connection:
        """A connection to the bucket's own region, which boto3 finds where it asks elsewhere, but signs nothing for."""
        if connection.bucket_region == connection.region:
            return connection
        with self._lock:
            if self._connection is connection:
                self._region, self._connection = connection.bucket_region, None
        return self._connected()

    def _connected(self) -> Connection:
        with self._lock:
            if self._connection is None:
                try:
                    self._connection = connect(self.bucket, self._options, self._region)
                except (BotoCoreError, ValueError) as error:
                    endpoint = self._options.endpoint_url or "S3"
                    raise s3_errors.translated(error, self.address(), endpoint) from error
            return self._connection


def _cause(error: Exception) -> Exception:
    """What made an upload fail, which boto3 tells in words alone."""
    context = error.__context__
    return context if isinstance(error, S3UploadFailedError) and isinstance(context, Exception) else error
