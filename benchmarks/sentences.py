"""Real sentences of many lengths, for a model that reads them."""

from pathlib import Path

_FILE = Path(__file__).parent / "data" / "sentences.txt"


def sentences() -> list[str]:
    """Return the distinct sentences, in the order of the file: short and long ones are mixed."""
    return _FILE.read_text().splitlines()
