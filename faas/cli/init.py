"""`faas init`: a small application to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from faas.cli.failure import CALL_WAS_WRONG, Failure

_APPLICATION: Final = '''\
"""How happy a text is, by the words in it.

    faas run {file} --data '"what a lovely day"'
    faas serve {file} --reload
    curl --data '"what a lovely day"' localhost:8000/
"""

from typing import TypedDict

from faas import Batching, inference_function


class Mood(TypedDict):
    score: float
    words: int


# With batching, calls that arrive together are answered by one call of `predict`. Callers still send one text each.
@inference_function(batching=Batching(max_batch_size=16, wait_ms=5))
class Happiness:
    def setup(self) -> None:
        # Runs once in each instance, before the first call. Load a model here.
        self.weights = {{"lovely": 1.0, "good": 0.7, "fine": 0.4, "dull": -0.5, "sad": -0.8, "awful": -1.0}}

    def predict(self, texts: list[str]) -> list[Mood]:
        # The annotations are the schema: a body that is no text is refused before it gets here.
        return [self._mood(text.lower().split()) for text in texts]

    def _mood(self, words: list[str]) -> Mood:
        found = [self.weights[word] for word in words if word in self.weights]
        return {{"score": sum(found) / max(len(found), 1), "words": len(words)}}
'''


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default="app.py")
def command(file: Path) -> None:
    """Write a small application to FILE (app.py) and say how to run it. Nothing is overwritten."""
    if file.suffix != ".py":
        raise Failure(f"{file} is no Python file", f"faas init {file.with_suffix('.py')}", CALL_WAS_WRONG)
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(_APPLICATION.format(file=file))
    except FileExistsError:
        raise Failure(f"{file} exists already", "faas init OTHER.py writes to another file", CALL_WAS_WRONG) from None
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror}", "faas init OTHER.py", CALL_WAS_WRONG) from None
    click.echo(f"wrote {file}; run it with:\n\n  faas run {file} --data '\"what a lovely day\"'\n")
    click.echo(f"and serve it with:\n\n  faas serve {file} --reload")
