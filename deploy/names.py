"""One spelling of a name for every field of a deployment.

Python names (`my_model`, `MyModel`, `model.v2`) are not names that Kubernetes takes. `dns_label` is the one place where
they are changed; service, labels and hosts all use what it returns.

A name that is a label already, and short enough, stays as it is. Every other name keeps as much of its spelling as fits
and gets eight digits of its own hash, so that names that differ (`my_model` and `my-model`, `Embed` and `embed`, two
long names with one beginning) never meet on one service. The result depends on the name and the namespace alone.
"""

import hashlib
import re
import unicodedata

from deploy.errors import InvalidName

_LABEL_LENGTH = 63
_REVISION_ROOM = len("-00001-deployment")  # what Knative appends for the objects below a service
_TAG_ROOM = len("candidate-")  # a traffic tag stands before the name in its host
_HASH_LENGTH = 8
_SHORTEST_SHORTENED = 12  # three readable characters, a hyphen, the hash

_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED_PART = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?")


def max_length(namespace: str) -> int:
    """How long a service's name may be in `namespace`.

    Room is left for the names that Knative derives (63 characters at most, as labels hold them) and for the first label
    of a host in the name-namespace style with a tag before it: `candidate-NAME-NAMESPACE`.
    """
    return min(_LABEL_LENGTH - _REVISION_ROOM, _LABEL_LENGTH - _TAG_ROOM - len("-") - len(namespace))


def dns_label(name: str, namespace: str = "default") -> str:
    """The DNS-1123 label, starting with a letter, that stands for `name` wherever Kubernetes sees it.

    Idempotent; raises `InvalidName` where no letter or digit can be kept, or where the namespace leaves no room.
    """
    limit = max_length(namespace)
    if len(name) <= limit and _LABEL.fullmatch(name):
        return name
    stem = _spelling(name)
    if not stem:
        raise InvalidName("name", name, "has no letter or digit of ASCII", "name it with a-z, 0-9 and hyphens")
    if limit < _SHORTEST_SHORTENED:
        raise InvalidName(
            "name",
            name,
            f"does not fit: namespace {namespace!r} of {len(namespace)} characters leaves {max(limit, 0)} for a name",
            f"choose a namespace of at most {len(namespace) - _SHORTEST_SHORTENED + limit} characters",
        )
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    return f"{stem[: limit - _HASH_LENGTH - 1].rstrip('-')}-{digest}"


def is_namespace(text: str) -> bool:
    """Whether `text` is a DNS-1123 label, as the name of a namespace must be."""
    return len(text) <= _LABEL_LENGTH and _NAMESPACE.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Whether `text` is a DNS-1123 subdomain, as the name of a secret, claim or service account must be."""
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


def is_qualified(text: str) -> bool:
    """Whether `text` is a key of a label, an annotation or a resource: `[subdomain/]name`."""
    prefix, slash, part = text.rpartition("/")
    return (not slash or is_subdomain(prefix)) and is_label_value(part) and part != ""


def is_label_value(text: str) -> bool:
    """Whether `text` can be the value of a Kubernetes label."""
    return text == "" or (len(text) <= _LABEL_LENGTH and _QUALIFIED_PART.fullmatch(text) is not None)


def _spelling(name: str) -> str:
    """What a label can keep of `name`: accents dropped, lower case, one hyphen for each run of anything else."""
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    stem = re.sub(r"[^a-z0-9]+", "-", ascii_only.lower()).strip("-")
    return f"f-{stem}" if stem[:1].isdigit() else stem
