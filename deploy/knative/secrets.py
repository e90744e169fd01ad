"""Secrets of a namespace: made, changed, listed and deleted; read back is but the one key that its caller made.

What is listed is metadata alone, which the API server is asked for as such, so that no value ever comes here. The names
of the keys stand in an annotation for that reason.
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from deploy import checks
from deploy.env_file import checked
from deploy.errors import InvalidSpec, Missing
from deploy.knative.apply import FIELD_MANAGER, check_ours
from deploy.knative.resources import OURS, OURS_SELECTOR, SECRETS, Document
from deploy.knative.rest import METADATA_LIST_ONLY, METADATA_ONLY, Rest
from deploy.knative.retrying import Wait, retried

_KEYS = "faas/keys"


@dataclass(frozen=True)
class Secret:
    """A secret without its values."""

    name: str
    namespace: str
    keys: tuple[str, ...]
    created_at: str


def put(
    rest: Rest,
    namespace: str,
    name: str,
    values: Mapping[str, bytes],
    *,
    replace: bool = False,
    wait: Wait | None = None,
) -> Literal["created", "changed"]:
    """Set the keys in `values`; other keys of the secret stay, or with `replace` go.

    Running instances keep what they were started with; new ones get the new values. A secret that faas did not make is
    refused with `NotOurs`.
    """
    checks.object_name("secret", name)
    wanted = checked(dict(values))
    if not wanted:
        raise InvalidSpec("secret", name, "is given no value", "write NAME=VALUE, or name a file")
    return retried(lambda: _put(rest, namespace, name, wanted, replace=replace), wait)


def listed(rest: Rest, namespace: str) -> list[Secret]:
    """The secrets that faas made, by name."""
    page = rest.list_all(SECRETS.path(namespace), {"labelSelector": OURS_SELECTOR}, accept=METADATA_LIST_ONLY)
    found = [
        Secret(item["metadata"]["name"], namespace, _keys(item), item["metadata"].get("creationTimestamp", ""))
        for item in page["items"]
    ]
    return sorted(found, key=lambda secret: secret.name)


def value(rest: Rest, namespace: str, name: str, key: str) -> bytes | None:
    """One key of a secret of ours, None where there is none: a token that both ends must have."""
    try:
        found = rest.get(SECRETS.path(namespace, name))
    except Missing:
        return None
    check_ours(found, name, namespace, kind="secret")
    text = (found.get("data") or {}).get(key)
    return None if text is None else base64.b64decode(text)


def delete(rest: Rest, namespace: str, name: str) -> None:
    """Delete a secret of ours; raises `Missing` where there is none."""
    live = _metadata(rest, namespace, name)
    if live is None:
        raise Missing(
            f"there is no secret {name} in {namespace}; see those there are with: faas secret list", status=404
        )
    check_ours(live, name, namespace, kind="secret")
    rest.delete(SECRETS.path(namespace, name), {"preconditions": {"uid": live["metadata"]["uid"]}})


def _put(
    rest: Rest, namespace: str, name: str, wanted: Mapping[str, bytes], *, replace: bool
) -> Literal["created", "changed"]:
    """One try; raises `Conflict` where somebody else was faster."""
    data: dict[str, str | None] = {key: base64.b64encode(value).decode() for key, value in wanted.items()}
    live = _metadata(rest, namespace, name)
    if live is None:
        document = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": data, **_described(name, data)}
        rest.create(SECRETS.path(namespace), document, {"fieldManager": FIELD_MANAGER})
        return "created"
    check_ours(live, name, namespace, kind="secret")
    present = _keys(live)
    if replace:
        data |= dict.fromkeys(key for key in present if key not in wanted)
    kept = [key for key in {*present, *data} if data.get(key, "") is not None]
    patch = {"data": data, **_described(name, kept, version=live["metadata"]["resourceVersion"])}
    rest.merge(SECRETS.path(namespace, name), patch, {"fieldManager": FIELD_MANAGER})
    return "changed"


def _metadata(rest: Rest, namespace: str, name: str) -> Document | None:
    try:
        return rest.get(SECRETS.path(namespace, name), accept=METADATA_ONLY)
    except Missing:
        return None


def _described(name: str, keys: Iterable[str], *, version: str | None = None) -> Document:
    """The metadata of a secret of ours; `version` holds a change to what was read."""
    metadata: Document = {"name": name, "labels": dict(OURS), "annotations": {_KEYS: ",".join(sorted(keys))}}
    return {"metadata": metadata if version is None else {**metadata, "resourceVersion": version}}


def _keys(secret: Document) -> tuple[str, ...]:
    text = (secret["metadata"].get("annotations") or {}).get(_KEYS, "")
    return tuple(key for key in text.split(",") if key)
