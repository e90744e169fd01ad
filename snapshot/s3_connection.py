"""A client of boto3 for one bucket, and what it was made with.

boto3 brings credentials from all the places where they may be, retries, and signing.
"""

import functools
from dataclasses import dataclass, field
from typing import Any, Literal

import boto3
import botocore.session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.httpsession import get_cert_path

from snapshot.errors import BadAddressError
from snapshot.s3_address import check_endpoint, is_aws

NUM_STREAMS = 4
_REGION = "us-east-1"
_YES = ("1", "true", "yes", "on")
# What boto3 has no variables for, as it takes them: name in the files, in the environment, default, conversion.
_VARIABLES = {
    "s3_addressing_style": (("s3", "addressing_style"), "AWS_S3_ADDRESSING_STYLE", None, None),
    "no_sign_request": ("no_sign_request", "AWS_NO_SIGN_REQUEST", "no", lambda text: text.lower() in _YES),
}


@dataclass(frozen=True)
class S3Options:
    """How to reach S3. What is None is as boto3 finds it (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION, files).

    AWS_S3_ADDRESSING_STYLE or the files (`s3`, `addressing_style`) say whether buckets are addressed by path or by
    host, AWS_NO_SIGN_REQUEST or the files (`no_sign_request`) whether requests go without credentials.
    """

    endpoint_url: str | None = None
    region: str | None = None
    num_attempts: int = 4


@dataclass(eq=False)
class Connection:
    """A client with the credentials it was made with, and what it signed: key -> (URL, when).

    region: the one it was made for; bucket_region: where the bucket is, as far as requests have shown
    """

    client: Any
    region: str
    ca_bundle: str | None
    signed: dict[str, tuple[str, float]] = field(default_factory=dict)
    bucket_region: str = ""

    def __post_init__(self) -> None:
        self.bucket_region = self.region
        self.client.meta.events.register("before-sign.s3", self._note_region)
        self.client.meta.events.register("before-call.s3.HeadBucket", _do_not_follow)

    def _note_region(self, request: Any, **_: object) -> None:
        """Note what boto3 signs for: it is sent to the bucket's region where that is another."""
        self.bucket_region = request.context.get("signing", {}).get("region") or self.region


def _do_not_follow(context: Any, **_: object) -> None:
    """Have boto3 ask only once where a bucket is when it is sent elsewhere: the answer may send it elsewhere, too."""
    context.get("s3_redirect", {})["redirected"] = True


@functools.cache
def _models() -> Any:
    """boto3's descriptions of services, which are long to read and never change: read once for all sessions."""
    return botocore.session.Session().get_component("data_loader")


def connect(bucket: str, options: S3Options, region: str | None = None) -> Connection:
    """A client with the credentials of now. `region`: where the bucket is, once that is known.

    Raises BadAddressError, and what boto3 raises.
    """
    # A session of its own, whose credentials are those of now; handed to the client whole, so that boto3 renews them.
    core = botocore.session.Session(session_vars=_VARIABLES)
    core.register_component("data_loader", _models())
    session = boto3.session.Session(botocore_session=core)
    asked = core.get_config_variable("s3_addressing_style") or "auto"
    if asked not in ("auto", "path", "virtual"):
        raise BadAddressError(f"buckets cannot be addressed by {asked!r}: AWS_S3_ADDRESSING_STYLE is path or virtual")
    signature = UNSIGNED if core.get_config_variable("no_sign_request") else "s3v4"
    if options.endpoint_url is not None and asked != "path":
        check_endpoint(options.endpoint_url, bucket)
    region = region or options.region or session.region_name or _REGION

    def client(style: Literal["path", "virtual"]) -> Any:
        config = Config(
            s3={"addressing_style": style},
            signature_version=signature,
            connect_timeout=5,
            read_timeout=60,
            retries={"mode": "standard", "total_max_attempts": options.num_attempts},
            max_pool_connections=4 * NUM_STREAMS,
            # Not every server of S3's protocol knows the checksums that boto3 would add; ours are in the manifest.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        return session.client("s3", endpoint_url=options.endpoint_url, region_name=region, config=config)

    # By path, unless another style is asked for: other servers than Amazon's seldom have a host for each bucket, and a
    # bucket with dots has none that a certificate is valid for. Who asks may have a server that is called like it.
    made = client("path")
    if asked != "path":
        endpoint = str(made.meta.endpoint_url)
        if not is_aws(endpoint):
            check_endpoint(endpoint, bucket)
        if asked == "virtual" or (is_aws(endpoint) and "." not in bucket):
            # Left to choose, boto3 signs addresses at a host that sends new buckets' readers on.
            made = client("virtual")
    return Connection(made, region, core.get_config_variable("ca_bundle") or get_cert_path(True))
