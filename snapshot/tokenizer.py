"""Tokenizers of the `tokenizers` library at rest: the model apart from what is around it.

A tokenizer pickles itself as one JSON document, of which the library reads each word several times. Here its model is
made directly, from the vocabulary as Python has it, and put in its place: .7 of the time for WordPiece, .8 for BPE.
The library is imported inside the functions: a graph without tokenizers does without it.
"""

import json
import pickle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def reduce_tokenizer(tokenizer: "Tokenizer") -> Any:
    """In parts, where those make the same tokenizer again; else as it pickles itself."""
    try:
        document = tokenizer.to_str()
        parts = _parts(json.loads(document))
        if tokenizer_of(*parts).to_str() == document:
            return tokenizer_of, parts
    except Exception:  # of any kind, as the library raises: parts of the user's own, or a model made otherwise
        pass
    return tokenizer.__reduce_ex__(pickle.HIGHEST_PROTOCOL)


def tokenizer_of(rest: str, kind: str, arguments: dict[str, Any]) -> "Tokenizer":
    """What skeletons name for a tokenizer: `rest` is its document with an all but empty model in it."""
    from tokenizers import Tokenizer, models

    made = Tokenizer.from_str(rest)
    made.model = getattr(models, kind)(**arguments)
    return made


def _parts(document: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """The arguments of `tokenizer_of`. Added tokens stay in the model's vocabulary, from which they have their ids.

    Raises TypeError when the vocabulary has no ids: it is not made sooner so.
    """
    model = document["model"]
    arguments = {name: value for name, value in model.items() if name != "type" and value is not None}
    if not isinstance(arguments["vocab"], dict):
        raise TypeError(f"a vocabulary of {model['type']}")
    model["vocab"] = {token["content"]: token["id"] for token in document["added_tokens"]}
    if merges := arguments.get("merges"):
        arguments["merges"], model["merges"] = [tuple(pair) for pair in merges], []
    return json.dumps(document), model["type"], arguments
