import pytest

from snapshot.imports.order import load_order


@pytest.mark.parametrize(
    "names",
    [
        ["model.embed_tokens.weight", "model.layers.2.a", "model.layers.10.a", "lm_head.weight", "model.norm.weight"],
        ["wpe.weight", "wte.weight", "h.0.attn.bias", "h.0.mlp.bias", "h.1.attn.bias", "ln_f.weight"],
        ["a"],
        [],
        ["0.weight", "1.weight", "layer.x.9", "layer.9.x", "bias"],
    ],
)
def test_names_come_in_the_order_in_which_a_model_runs(names: list[str]) -> None:
    ordered = load_order(reversed(names))
    assert sorted(ordered) == sorted(names)
    if "layer.x.9" not in names:
        assert ordered == names
    assert load_order(ordered) == ordered
