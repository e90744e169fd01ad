from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import make_dataclass
from typing import Any

import pytest

from faas import Batching, endpoint, inference_function
from faas.server import docs
from faas.server.page import PAGE

pytestmark = pytest.mark.anyio


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for held in value.values():
            yield from references(held)
    elif isinstance(value, list):
        for held in value:
            yield from references(held)


def resolve(spec: dict[str, Any], reference: str) -> Any:
    found: Any = spec
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


First, Second = (make_dataclass("Item", [("value", kind)]) for kind in (int, str))


@inference_function(warmup=[{"value": 3}])
class Several:
    """Several ways in.

    And more about them.
    """

    @endpoint("/")
    def first(self, item: First) -> First:  # type: ignore[valid-type]
        """Take the first kind."""
        return item

    @endpoint("/second")
    def second(self, item: Second) -> Iterator[Second]:  # type: ignore[valid-type]
        yield item

    @endpoint("/raw")
    def raw(self, image: bytes) -> bytes:
        return image

    @endpoint("/mixed")
    def mixed(self, image: bytes, label: str = "") -> None: ...

    @endpoint("/none")
    def none(self) -> int:
        return 1


async def test_the_schema_describes_every_endpoint(serving):
    async with serving(Several) as served:
        response = await served.client.get("/openapi.json")
        again = await served.client.get("/openapi.json")
    assert response.content == again.content
    spec = response.json()
    assert spec["openapi"] == "3.1.0"
    assert spec["info"]["title"] == "several"
    assert spec["info"]["version"] == "7"
    assert "And more" in spec["info"]["description"]
    assert spec["servers"] == [{"url": "./"}], "it is served below any prefix"
    for reference in references(spec):
        resolve(spec, reference)
    posts = {path: item["post"] for path, item in spec["paths"].items()}
    assert set(posts) == {"/", "/second", "/raw", "/mixed", "/none"}

    def taken(path: str) -> Any:
        return posts[path]["requestBody"]["content"]

    first, second = (resolve(spec, taken(p)["application/json"]["schema"]["$ref"]) for p in ("/", "/second"))
    assert first["properties"]["value"]["type"] == "integer"
    assert second["properties"]["value"]["type"] == "string", "two types of one name are kept apart"
    assert taken("/")["application/json"]["example"] == {"value": 3}
    assert posts["/"]["summary"] == "Take the first kind."
    assert set(posts["/second"]["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    assert set(taken("/raw")) == {"application/octet-stream", "multipart/form-data"}
    assert set(posts["/raw"]["responses"]["200"]["content"]) == {"application/octet-stream"}
    assert set(taken("/mixed")) == {"application/json", "multipart/form-data"}
    assert "requestBody" not in posts["/none"]
    assert {"400", "413", "415", "422", "429", "500", "503", "504"} < set(posts["/"]["responses"])


def test_a_batched_function_is_described_as_its_callers_see_it():
    @inference_function(batching=Batching())
    def lengths(texts: list[str]) -> list[int]:
        return [len(text) for text in texts]

    spec = docs.codec.decode_value(docs.openapi(lengths, "1"))
    post = spec["paths"]["/"]["post"]
    assert {"type": "string"} in post["requestBody"]["content"]["application/json"]["schema"]["anyOf"]
    assert post["responses"]["200"]["content"]["application/json"]["schema"] == {"type": "integer"}


async def test_the_page_needs_nothing_from_elsewhere(serving):
    async with serving(Several) as served:
        response = await served.client.get("/docs")
    assert response.content == PAGE
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    text = PAGE.decode()
    assert not re.search(r"https?://|src=|@import|url\(", text)
    assert set(re.findall(r'fetch\(("[^"]*")', text)) == {'"openapi.json"', '"."'}
    assert 'name="viewport"' in text
    assert "prefers-color-scheme: dark" in text
    assert "innerHTML" not in text, "what the schema says is text, never markup"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to read the script")
def test_the_pages_script_can_be_read(tmp_path):
    script = re.search(rb"<script>(.*)</script>", PAGE, re.DOTALL)
    assert script is not None
    path = tmp_path / "page.mjs"
    path.write_bytes(script[1])
    subprocess.run(["node", "--check", str(path)], check=True, timeout=30)
