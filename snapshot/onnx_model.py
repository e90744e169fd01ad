"""Which other files an ONNX model keeps its weights in, and what onnxruntime does not tell of its inputs.

The `onnx` package is not needed to run a model, so it is not needed here: this walks the protocol-buffer message and
looks only at the fields that lead to tensors. A message is a run of fields, each a tag (number and wire type) and a
value; a value of wire type 2 has its length in front, and is skipped or entered.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}

# Message -> field number -> message, for the ways from a model to its tensors (onnx.proto).
_FIELDS: dict[str, dict[int, str]] = {
    "Model": {7: "Graph", 20: "Training", 25: "Function"},
    "Training": {1: "Graph", 2: "Graph"},
    "Function": {7: "Node", 11: "Attribute"},
    "Graph": {1: "Node", 5: "Tensor", 15: "SparseTensor"},
    "Node": {5: "Attribute"},
    "Attribute": {
        5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph", 22: "SparseTensor", 23: "SparseTensor",
    },
    "SparseTensor": {1: "Tensor", 2: "Tensor"},
    "Tensor": {13: "Entry"},
}  # fmt: skip
_KEY, _VALUE = 1, 2
# Fields on the way from a model to the shapes of its inputs.
_GRAPH, _INPUT, _NAME, _TYPE, _TENSOR_TYPE, _SHAPE = 7, 11, 1, 2, 1, 2
_ORT_FORMAT_MARK = b"ORTM"


def is_ort_format(model: memoryview) -> bool:
    """Whether a model is in onnxruntime's own format, which holds all of its weights itself."""
    return bytes(model[4:8]) == _ORT_FORMAT_MARK


def external_files(model: memoryview) -> list[str]:
    """The files, relative to the model's folder, that hold tensors of an ONNX model; each once.

    Raises ValueError when the bytes are not a protocol-buffer message.
    """
    return list(dict.fromkeys(_locations(model, "Model")))


def inputs_of_any_rank(model: memoryview) -> frozenset[str]:
    """The inputs of an ONNX model that are arrays of which it does not tell how many axes they have.

    Raises ValueError when the bytes are not a protocol-buffer message.
    """
    if is_ort_format(model):
        return frozenset()
    found = []
    for graph in _all(model, _GRAPH):
        for value in _all(graph, _INPUT):
            arrays = [kind for types in _all(value, _TYPE) for kind in _all(types, _TENSOR_TYPE)]
            if arrays and not any(_all(kind, _SHAPE) for kind in arrays):
                found += [bytes(name).decode() for name in _all(value, _NAME)]
    return frozenset(found)


def _all(message: memoryview, number: int) -> list[memoryview]:
    return [value for found, value in _fields(message) if found == number]


def _locations(message: memoryview, kind: str) -> Iterator[str]:
    inner = _FIELDS[kind]
    for number, value in _fields(message):
        entered = inner.get(number)
        if entered == "Entry":
            entry = dict(_fields(value))
            if bytes(entry.get(_KEY, b"")) == b"location":
                # In one spelling: some exporters write ./weights.bin.
                yield str(PurePosixPath(bytes(entry.get(_VALUE, b"")).decode()))
        elif entered is not None:
            yield from _locations(value, entered)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The fields of wire type 2: number and content."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        wire_type = tag & 7
        if wire_type == _BYTES:
            length, position = _varint(message, position)
            if length > len(message) - position:
                raise ValueError(f"a field claims {length} bytes where {len(message) - position} are left")
            yield tag >> 3, message[position : position + length]
            position += length
        elif wire_type == _VARINT:
            _, position = _varint(message, position)
        elif wire_type in _FIXED_BYTES:
            position += _FIXED_BYTES[wire_type]
        else:
            raise ValueError(f"wire type {wire_type} at byte {position}: this is not an ONNX model")


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            break
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError(f"no number ends at byte {position}: this is not an ONNX model")
