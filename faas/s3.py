"""Clients for S3, which takes a library that is not always installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faas.errors import SettingError

if TYPE_CHECKING:
    from snapshot.s3_client import S3Client


def client(bucket: str) -> S3Client:
    """Return a client for a bucket. Raises SettingError where boto3 is not installed."""
    try:
        from snapshot.s3_client import S3Client  # boto3 is slow to import, and few need it
    except ModuleNotFoundError as error:
        raise SettingError(f"{error.name} is not installed, which S3 needs: pip install 'faas[s3]'") from None
    return S3Client(bucket)
