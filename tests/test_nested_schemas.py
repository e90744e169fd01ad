"""Definitions inside of schemas, as pydantic makes them, in the document that an instance gives."""

import json
from typing import Annotated, Literal

import msgspec
import pydantic

from faas import endpoint, inference_function
from faas.cli import example
from faas.nested_schemas import hoisted
from faas.server.docs import openapi


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    tricks: list[str] = []


class Order(pydantic.BaseModel):
    pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


class Node(pydantic.BaseModel):
    children: list["Node"] = []


class Holder(msgspec.Struct):
    order: Order


def references(value):
    if isinstance(value, list):
        return {one for each in value for one in references(each)}
    if not isinstance(value, dict):
        return {value} if isinstance(value, str) and value.startswith("#/") else set()
    return {one for each in value.values() for one in references(each)}


def test_every_reference_of_the_document_leads_to_a_part_of_it():
    @inference_function
    class Shop:
        def predict(self, order: Order) -> list[Order]: ...

        @endpoint("/tree")
        def tree(self, node: Node) -> Node: ...

        @endpoint("/held")
        def held(self, holder: Holder) -> Order: ...

    text = openapi(Shop, "1").decode()
    document = json.loads(text)
    assert "$defs" not in text
    for reference in references(document["paths"]) | references(document["components"]):
        found = document
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
    mapping = document["paths"]["/"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert mapping["properties"]["pet"]["discriminator"]["mapping"]["cat"] == "#/components/schemas/Cat"


def test_an_example_is_made_of_nested_models():
    @inference_function
    def buy(order: Order) -> Order: ...

    assert example.of(buy.main.signature) == """--data '{"pet":{"kind":"cat"}}'"""


def test_definitions_of_one_name_are_told_apart():
    def bringing(kind):
        return {"$ref": "#/$defs/A", "$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"type": kind}}}

    parts = {}
    assert hoisted([bringing("string"), bringing("string"), bringing("null")], parts, "at {name}") == [
        {"$ref": "at A"},
        {"$ref": "at A"},
        {"$ref": "at A_2"},
    ]
    assert parts == {
        "A": {"items": {"$ref": "at B"}},
        "B": {"type": "string"},
        "A_2": {"items": {"$ref": "at B_2"}},
        "B_2": {"type": "null"},
    }
