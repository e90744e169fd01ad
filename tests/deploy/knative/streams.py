"""The answers of the stand-in that go on: watches and logs."""

import asyncio
import json
import time
from typing import TYPE_CHECKING

from .answers import Answer
from .http import Send, send_part, start
from .stored import Document, Event, matches

if TYPE_CHECKING:
    from .api_server import Call, State


async def watch(state: "State", call: "Call", send: Send, stopping: asyncio.Event) -> None:
    """Events after `resourceVersion`, and bookmarks in quiet times, until `timeoutSeconds` are over."""
    store, query = state.store, call.query
    if not query.get("resourceVersion", "").isdigit():
        raise Answer(400, f'resourceVersion: Invalid value: "{query.get("resourceVersion")}"')
    sent = int(query["resourceVersion"])
    deadline = time.monotonic() + int(query.get("timeoutSeconds", 1800))
    await start(send, 200, "application/json")
    if sent < store.oldest:
        gone = Answer(410, f"too old resource version: {sent} ({store.oldest})").status
        await _event(send, "ERROR", gone)
        await send_part(send, "", more=False)
        return
    while not stopping.is_set() and (left := deadline - time.monotonic()) > 0:
        for event in [event for event in store.history if event.version > sent]:
            sent = event.version
            if _concerns(event, call):
                await _event(send, event.kind, event.object)
        sent = max(sent, store.oldest)
        if store.version > sent:  # written to while events were sent
            continue
        await store.changed(min(left, state.bookmark_every_s))
        if store.version == sent and left > state.bookmark_every_s and query.get("allowWatchBookmarks") == "true":
            await _event(send, "BOOKMARK", {"metadata": {"resourceVersion": str(sent)}})
    await send_part(send, "", more=False)


def _concerns(event: Event, call: "Call") -> bool:
    if event.plural != call.resource or call.namespace not in (None, event.object["metadata"].get("namespace")):
        return False
    return matches(event.object, call.query.get("labelSelector", ""), call.query.get("fieldSelector", ""))


async def log(state: "State", call: "Call", send: Send, stopping: asyncio.Event) -> None:
    """The lines of a pod, from its end back and onwards as asked for."""
    query, pod = call.query, str(call.name)
    if state.store.get("pods", call.namespace or "", pod) is None:
        raise Answer(404, f'pods "{pod}" not found')
    if query.get("container") != "user-container":
        raise Answer(400, f"a container name must be specified for pod {pod}")
    if pod not in state.logs:
        raise Answer(400, f'container "user-container" in pod "{pod}" is waiting to start: ContainerCreating')
    lines = state.logs[pod]
    begin = max(0, len(lines) - int(query["tailLines"])) if "tailLines" in query else 0
    if since := query.get("sinceTime"):
        begin = sum(line[:19] < since[:19] for line in lines)
    await start(send, 200, "text/plain")
    while True:
        for line in lines[begin:]:
            text = line if query.get("timestamps") == "true" else line.partition(" ")[2]
            await send_part(send, text + "\n")
        begin = len(lines)
        if state.num_logs_to_cut:
            state.num_logs_to_cut -= 1
            break
        gone = state.store.get("pods", call.namespace or "", pod) is None
        if query.get("follow") != "true" or gone or stopping.is_set():
            break
        await state.store.changed()
    await send_part(send, "", more=False)


async def _event(send: Send, kind: str, document: Document) -> None:
    await send_part(send, json.dumps({"type": kind, "object": document}) + "\n")
