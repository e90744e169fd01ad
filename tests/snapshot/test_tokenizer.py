from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import snapshot
from snapshot.tokenizer import reduce_tokenizer, tokenizer_of

SENTENCES = [f"the quick brown fox jumps over {number} lazy dogs" for number in range(50)]
KINDS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "WordPiece": (models.WordPiece, trainers.WordPieceTrainer),
    "BPE": (models.BPE, trainers.BpeTrainer),
    "WordLevel": (models.WordLevel, trainers.WordLevelTrainer),
}


def trained(kind: str) -> Tokenizer:
    model, trainer = KINDS[kind]
    tokenizer = Tokenizer(model(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(SENTENCES, trainer(special_tokens=["[PAD]", "[UNK]"], vocab_size=200))
    return tokenizer


def thawed(tokenizer: Tokenizer, folder: Path) -> Tokenizer:
    snapshot.freeze({"tokenizer": tokenizer}, folder)
    back: Tokenizer = snapshot.thaw(folder).state["tokenizer"]
    return back


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_is_kept_apart_and_the_tokenizer_is_the_same(kind: str, tmp_path: Path) -> None:
    tokenizer = trained(kind)
    tokenizer.add_tokens(["zebra", "quick"])
    tokenizer.add_special_tokens(["[MASK]"])
    tokenizer.enable_padding(length=12, pad_token="[PAD]")
    tokenizer.enable_truncation(9)
    assert reduce_tokenizer(tokenizer)[0] is tokenizer_of
    back = thawed(tokenizer, tmp_path / "kept")
    assert back.to_str() == tokenizer.to_str()
    text = "the quick [MASK] zebra jumps over everything that is new"
    assert back.encode(text).ids == tokenizer.encode(text).ids
    assert back.decode(back.encode(text).ids) == tokenizer.decode(tokenizer.encode(text).ids)


def test_what_parts_would_not_make_again_pickles_itself(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("the", -1.0), ("fox", -2.0)], unk_id=0))
    assert reduce_tokenizer(tokenizer)[0] is not tokenizer_of
    assert thawed(tokenizer, tmp_path / "kept").to_str() == tokenizer.to_str()


def test_a_tokenizer_without_a_model_is_kept(tmp_path: Path) -> None:
    assert thawed(Tokenizer(models.BPE()), tmp_path / "empty").to_str() == Tokenizer(models.BPE()).to_str()
