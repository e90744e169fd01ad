"""Makes small ONNX models by hand: a protocol-buffer message is its fields one after the other."""

FLOAT = 1


def _varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: int | str | bytes) -> bytes:
    """One field: an integer, or a length and what it counts."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    value = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def tensor(name: str, size: int, *, raw: bytes = b"", location: str = "") -> bytes:
    """A vector of floats, its data inside or in a file."""
    message = field(1, size) + field(2, FLOAT) + field(8, name)
    if not location:
        return message + field(9, raw)
    entries = {"location": location, "offset": "0", "length": str(size * 4)}
    return message + b"".join(field(13, field(1, k) + field(2, v)) for k, v in entries.items()) + field(14, 1)


def _vector(name: str, size: int) -> bytes:
    shape = field(1, field(1, size))
    return field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, shape)))


def adder(weights: bytes, size: int) -> bytes:
    """The model y = x + w of vectors; `weights` is the tensor w."""
    node = field(1, "x") + field(1, "w") + field(2, "y") + field(4, "Add")
    graph = field(1, node) + field(2, "adder") + field(5, weights)
    graph += field(11, _vector("x", size)) + field(12, _vector("y", size))
    return field(1, 8) + field(8, field(2, 13)) + field(7, graph)
