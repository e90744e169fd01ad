"""The requests of the stand-in: one function for each verb."""

import asyncio
import base64
import copy
import json
from typing import TYPE_CHECKING, Any

from . import admission, schema, streams
from .answers import Answer, stale
from .fields import Held, Owners, dotted
from .http import Send, send_json, send_part, start
from .stored import Document, matches, now

if TYPE_CHECKING:
    from .api_server import Call, State

_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_KINDS = {
    "services": "Service",
    "revisions": "Revision",
    "pods": "Pod",
    "secrets": "Secret",
    "configmaps": "ConfigMap",
    "events": "Event",
}


async def answer(state: "State", call: "Call", send: Send, stopping: asyncio.Event) -> None:
    """Answer one request, or raise an `Answer`."""
    if call.path == "/version":
        await send_json(send, 200, {"gitVersion": "v1.36.0"})
    elif call.path in state.apis:
        await send_json(send, 200, {"kind": "APIResourceList", "resources": []})
    elif call.resource == "pods/log":
        await streams.log(state, call, send, stopping)
    elif call.resource == "pods/proxy":
        await _proxy(state, call, send)
    elif call.resource not in (*_KINDS, "nodes", "resourcequotas"):
        raise Answer(404, "the server could not find the requested resource")
    elif call.verb == "watch":
        await streams.watch(state, call, send, stopping)
    else:
        verbs = {"list": _list, "get": _get, "create": _create, "patch": _patch, "delete": _delete}
        code, document = verbs[call.verb](state, call)
        await send_json(send, code, _shortened(document, call))


async def send_events(send: Send, events: list[Document]) -> None:
    """A watch that brings these events and ends."""
    await start(send, 200, "application/json")
    for event in events:
        await send_part(send, json.dumps(event) + "\n")
    await send_part(send, "", more=False)


def _list(state: "State", call: "Call") -> tuple[int, Document]:
    found = [
        item
        for item in state.store.listed(call.resource, call.namespace)
        if matches(item, call.query.get("labelSelector", ""), call.query.get("fieldSelector", ""))
    ]
    begin, limit = 0, int(call.query.get("limit", 0)) or len(found)
    if token := call.query.get("continue"):
        version, begin = json.loads(base64.b64decode(token))
        if version < state.store.oldest:
            raise Answer(410, "The provided continue parameter is too old to display a consistent list result.")
    metadata: Document = {"resourceVersion": str(state.store.version)}
    if begin + limit < len(found):
        metadata["continue"] = base64.b64encode(json.dumps([state.store.version, begin + limit]).encode()).decode()
    return 200, {"kind": "List", "metadata": metadata, "items": found[begin : begin + limit]}


def _get(state: "State", call: "Call") -> tuple[int, Document]:
    return 200, _standing(state, call)


def _create(state: "State", call: "Call") -> tuple[int, Document]:
    _dry_run(call)
    if call.headers.get("content-type") != "application/json":
        raise Answer(415, "the body of the request was in an unknown format")
    document = json.loads(call.body)
    document["metadata"]["namespace"] = call.namespace
    name = document["metadata"]["name"]
    if state.store.get(call.resource, call.namespace or "", name) is not None:
        raise Answer(409, f'{call.resource} "{name}" already exists', reason="AlreadyExists")
    return 201, _write(state, call, document, None)


def _patch(state: "State", call: "Call") -> tuple[int, Document]:
    kind = call.headers.get("content-type", "")
    if kind not in (_APPLY, _MERGE):
        raise Answer(415, f"the body of the request was in an unknown format - accepted media types include: {_MERGE}")
    body, live = json.loads(call.body), state.store.get(call.resource, call.namespace or "", str(call.name))
    wanted = (body.get("metadata") or {}).get("resourceVersion")
    if live is not None and wanted is not None and wanted != live["metadata"]["resourceVersion"]:
        raise stale(call.resource, str(call.name))
    if live is None and (kind == _MERGE or wanted is not None):
        raise Answer(404 if kind == _MERGE else 409, f'{call.resource} "{call.name}" not found')
    if kind == _MERGE:
        assert live is not None
        return 200, _write(state, call, merged(copy.deepcopy(live), body), live)
    return (201 if live is None else 200), _apply(state, call, body, live)


def _apply(state: "State", call: "Call", body: Document, live: Document | None) -> Document:
    if not call.query.get("fieldManager"):
        raise Answer(
            422, "PatchOptions.meta.k8s.io is invalid: fieldManager: Required value: is required for apply patch"
        )
    if not body.get("apiVersion") or body.get("kind") != _KINDS[call.resource]:
        raise Answer(400, "apiVersion and kind must be set to those of the resource")
    if body["metadata"].get("name") != call.name or body["metadata"].get("namespace", call.namespace) != call.namespace:
        raise Answer(400, "the name of the object does not match the name on the URL")
    if "managedFields" in body["metadata"]:
        raise Answer(400, "metadata.managedFields must be nil")
    if live is None:
        state.need("create", call.resource)
    if call.resource == "services" and (wrong := schema.problems(body)):
        described = f"({call.namespace}/{call.name}; {body['apiVersion']}, Kind={body['kind']})"
        raise Answer(500, f"failed to create typed patch object {described}: {'; '.join(wrong)}")
    key = (call.resource, call.namespace or "", str(call.name))
    owners = copy.deepcopy(state.store.owners.get(key, Owners()))
    base = live or {**body, "metadata": {"name": call.name, "namespace": call.namespace}, "spec": {}}
    manager = call.query["fieldManager"]
    try:
        document = owners.apply(base, body, manager, force=call.query.get("force") == "true")
    except Held as held:
        causes = [
            {
                "reason": "FieldManagerConflict",
                "message": f'conflict with "{other}" using {body["apiVersion"]}',
                "field": dotted(path),
            }
            for other, path in held.by
        ]
        raise Answer(409, f"Apply failed with {len(causes)} conflicts", causes=causes) from held
    written = _write(state, call, document, live, note=False)
    if not _dry_run(call):
        state.store.owners[key] = owners
    return written


def _write(state: "State", call: "Call", document: Document, live: Document | None, *, note: bool = True) -> Document:
    """Admission, then the store, unless nothing has changed or it is a dry run."""
    document["metadata"].pop("resourceVersion", None)
    if call.resource == "services":
        document = admission.defaulted(document, live)
        admission.check(document, live, flags=state.flags, max_timeout_s=state.max_timeout_s)
    if live is not None:
        document["metadata"] |= {k: live["metadata"][k] for k in ("uid", "resourceVersion", "generation")}
        if document == live:
            return live
    if _dry_run(call):
        generation = 1 if live is None else live["metadata"]["generation"] + (document["spec"] != live["spec"])
        return {**document, "metadata": {**document["metadata"], "generation": generation, "uid": "dry-run"}}
    written = state.store.put(call.resource, document)
    if note:
        owners = state.store.owners.setdefault(
            (call.resource, call.namespace or "", written["metadata"]["name"]), Owners()
        )
        owners.note_update(live or {}, written, call.query.get("fieldManager", "unknown"))
    return written


def _delete(state: "State", call: "Call") -> tuple[int, Document]:
    live, options = _standing(state, call), json.loads(call.body or b"{}")
    uid = (options.get("preconditions") or {}).get("uid")
    if uid not in (None, live["metadata"]["uid"]):
        raise Answer(409, f"Precondition failed: UID in precondition: {uid}")
    if call.resource == "services" and options.get("propagationPolicy") == "Foreground":
        live["metadata"] |= {"deletionTimestamp": now(), "finalizers": ["foregroundDeletion"]}
        return 200, state.store.put(call.resource, live)
    state.store.remove(call.resource, call.namespace or "", str(call.name))
    return 200, {"kind": "Status", "status": "Success"}


async def _proxy(state: "State", call: "Call", send: Send) -> None:
    pod, _, port = str(call.name).partition(":")
    if pod not in state.metrics or port in ("", "8012"):
        raise Answer(503, f"error trying to reach service: no answer from {call.name}")
    assert call.path.endswith("/metrics")
    await start(send, 200, "text/plain")
    await send_part(send, state.metrics[pod], more=False)


def _standing(state: "State", call: "Call") -> Document:
    found = state.store.get(call.resource, call.namespace or "", str(call.name))
    if found is None:
        raise Answer(404, f'{call.resource} "{call.name}" not found')
    return found


def _dry_run(call: "Call") -> bool:
    if call.query.get("dryRun", "All") != "All":
        raise Answer(422, f'dryRun: Unsupported value: "{call.query["dryRun"]}"')
    return "dryRun" in call.query


def _shortened(document: Document, call: "Call") -> Document:
    """As the Accept header wants it: whole, or metadata alone."""
    accept = call.headers.get("accept", "")
    if "as=PartialObjectMetadataList" in accept:
        return {**document, "items": [{"metadata": item["metadata"]} for item in document["items"]]}
    if "as=PartialObjectMetadata" in accept and "metadata" in document:
        return {"kind": "PartialObjectMetadata", "metadata": document["metadata"]}
    return document


def merged(live: Any, patch: Document) -> Document:
    """A JSON merge patch (RFC 7396)."""
    found: Document = dict(live) if isinstance(live, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value) if isinstance(value, dict) else value
    return found
