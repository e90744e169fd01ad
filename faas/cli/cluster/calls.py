"""Where a function of a cluster is called."""

from __future__ import annotations

from urllib.parse import urlsplit

from faas import settings
from faas.address import Address
from faas.cli import where
from faas.cli.failure import CALL_WAS_WRONG, Failure
from faas.cli.where import Where


def address(name: str, found: Where, ingress: str | None, tag: str | None) -> Address:
    """Return where a function is called: at its URL, or at an ingress by that URL's host.

    Raises:
        Failure: it has no URL yet, or no such tag.
    """
    with found.connected() as cluster:
        detail = cluster.describe(where.service(name, cluster))
    url = next((one.url for one in detail.urls if one.tag == tag), None)
    if url is None and tag is not None:
        tags = ", ".join(one.tag for one in detail.urls if one.tag) or "none"
        raise Failure(f"{name} has no tag {tag!r}; it has {tags}", f"faas traffic {name} --tag TAG=REV", CALL_WAS_WRONG)
    if url is None:
        raise Failure(f"{name} has no URL: it is not ready", f"faas describe {name} --cluster says why")
    ingress = ingress or settings.read().ingress
    if ingress is None:
        return Address(url.rstrip("/") + "/")
    if urlsplit(ingress).scheme not in ("http", "https"):
        raise Failure(f"--address {ingress}: is no URL", "write it as http://10.0.0.1:8080", CALL_WAS_WRONG)
    return Address(ingress.rstrip("/") + "/", host=urlsplit(url).netloc)
