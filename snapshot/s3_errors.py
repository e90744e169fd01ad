"""From what boto3 raises, and from what a server answers, to this package's errors.

Imported where boto3 is: with the client.
"""

from typing import Any

from botocore import exceptions as boto

from snapshot.errors import (
    AccessDeniedError,
    BadAddressError,
    BucketNotFoundError,
    CredentialsError,
    RemoteError,
    SnapshotError,
    UnreachableError,
)

# Also keys that are no longer known: they were replaced where they are kept.
_STALE = {"ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId"}
_WRONG_KEYS = _STALE | {"SignatureDoesNotMatch", "AuthorizationHeaderMalformed", "InvalidSecurity"}
_DENIED = {"AccessDenied", "Forbidden", "403", "401", "AllAccessDisabled", "AccountProblem"}
_MISSING = {"NoSuchKey", "404", "NotFound"}
_UNKNOWN_REQUEST = {"MissingContentMD5", "NotImplemented", "MethodNotAllowed", "501", "405"}
_SKEWED = {"RequestTimeTooSkewed", "RequestExpired"}
_ONLY_VIRTUAL = {"SecondLevelDomainForbidden", "PathStyleDomainForbidden", "VirtualHostDomainRequired"}
_ELSEWHERE = {"PermanentRedirect", "TemporaryRedirect", "301", "302", "303", "307", "308"}
_BUSY = {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "Throttling", "500", "502", "503", "504"}
_NO_KEYS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.TokenRetrievalError,
    boto.ProfileNotFound,
    boto.SSOError,
)
_GIVE_KEYS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or write ~/.aws/credentials"
_OR_NONE = "or, for what anybody may read, AWS_NO_SIGN_REQUEST=true"


def code_of(error: Exception) -> str:
    """The server's code of what went wrong; empty when it was not the server that refused."""
    if not isinstance(error, boto.ClientError):
        return ""
    answer: Any = error.response.get("Error", {})
    # A gateway's own page has no code in it.
    return str(answer.get("Code") or error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))


def is_stale(code: str) -> bool:
    """Whether the keys were good and are no longer: fetched anew, they may be."""
    return code in _STALE


def is_skewed(code: str) -> bool:
    """Whether the request was signed at another time than the server has now."""
    return code in _SKEWED


def is_missing(code: str) -> bool:
    """Whether there is no such key."""
    return code in _MISSING


def is_unknown_request(code: str) -> bool:
    """Whether the server does not have that kind of request, or not as boto3 makes it."""
    return code in _UNKNOWN_REQUEST


def translated(error: Exception, address: str, endpoint: str) -> SnapshotError:
    """This package's error for what boto3 raised when `address` was asked of `endpoint`."""
    if isinstance(error, boto.ClientError):
        message = str(error.response.get("Error", {}).get("Message", "")) or str(error)
        if code_of(error) in _ELSEWHERE:
            to = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("location")
            return RemoteError(
                address,
                f"{endpoint} sends requests elsewhere ({code_of(error)}, {to or message}); give the endpoint that "
                f"answers itself",
            )
        return refused(code_of(error), message, address, endpoint)
    if isinstance(error, _NO_KEYS):
        return CredentialsError(address, f"no credentials for S3 ({error}); {_GIVE_KEYS}, {_OR_NONE}")
    if isinstance(error, boto.ResponseStreamingError | boto.IncompleteReadError):
        return UnreachableError(address, f"{endpoint} ends its answer too soon: {error}; try again later")
    if isinstance(error, boto.HTTPClientError | boto.ConnectionError):
        return UnreachableError(address, f"{endpoint} does not answer: {error}; see that it runs and is reachable")
    if isinstance(error, boto.ParamValidationError | boto.InvalidRegionError | boto.UnknownEndpointError | ValueError):
        return BadAddressError(f"{address}: cannot be asked for: {error}")
    return RemoteError(address, f"{type(error).__name__}: {error}")


def refused(code: str, message: str, address: str, endpoint: str) -> SnapshotError:
    """This package's error for the answer of a server that refused."""
    said = f"{code}: {message}" if message and message != code else code
    if code == "NoSuchBucket":
        return BucketNotFoundError(address, f"{endpoint} has no such bucket; make it, or correct the address")
    if code in _STALE:
        return CredentialsError(address, f"the credentials are not, or no longer, valid ({said}); {_GIVE_KEYS}")
    if code in _WRONG_KEYS:
        return CredentialsError(address, f"the credentials are wrong ({said}); {_GIVE_KEYS}")
    if code in _SKEWED:
        return RemoteError(address, f"{endpoint} has another time than this machine ({said}); set this machine's clock")
    if code == "InvalidObjectState":
        return RemoteError(address, f"is archived, and cannot be read before it is restored ({said}); restore it first")
    if code in _ONLY_VIRTUAL:
        return BadAddressError(
            f"{address}: {endpoint} wants buckets at hosts of their own ({said}); set AWS_S3_ADDRESSING_STYLE=virtual"
        )
    if code in _DENIED:
        return AccessDeniedError(
            address,
            f"these credentials do not allow it ({said}), which S3 also says of what is not there where they may not "
            "list; ask for the permission",
        )
    if code in _BUSY:
        return UnreachableError(address, f"{endpoint} fails ({said}), each time it was tried; try again later")
    if code in _MISSING:
        return RemoteError(address, "is not there, though it should be; push the snapshot again")
    return RemoteError(address, f"{endpoint} refused with {said or 'no reason'}")
