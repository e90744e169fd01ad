from types import SimpleNamespace

import pytest

from faas import training

torch = pytest.importorskip("torch")


class Handler:
    def predict(self, x: int) -> int:
        return x


def layer(*, trains=True):
    return torch.nn.Linear(1, 1).train(trains)


def found(**attributes):
    handler = Handler()
    vars(handler).update(attributes)
    return training.in_training(handler.predict)


def test_to_03_a_model_in_training_mode_is_found_wherever_a_handler_may_hold_it():
    assert found(model=layer()) == ["self.model"]
    assert found(models=[layer(trains=False), layer()]) == ["self.models[1]"]
    assert found(models=(layer(),)) == ["self.models[0]"]
    assert found(models={"de": layer(), "en": layer(trains=False)}) == ["self.models['de']"]
    assert found(pipeline=SimpleNamespace(model=layer())) == ["self.pipeline.model"]
    assert found(pipelines={"de": SimpleNamespace(model=layer())}) == ["self.pipelines['de'].model"]


def test_to_03_a_model_in_evaluation_mode_is_no_finding():
    assert found(model=layer(trains=False), models=[layer(trains=False)], name="m", size=3) == []


def test_one_model_under_two_names_is_told_of_once():
    model = layer()
    assert found(model=model, same=model) == ["self.model"]


def test_globals_of_a_function(monkeypatch):
    space = {"models": [layer()], "torch": torch, "training": training}
    exec("def predict(x):\n    return x\n", space)
    assert training.in_training(space["predict"]) == ["models[0]"]


def test_the_search_is_bounded():
    class Counting(dict):
        looked_at = 0

        def items(self):
            for item in super().items():
                Counting.looked_at += 1
                yield item

    many = Counting({i: layer() for i in range(100)})
    assert len(found(models=many)) == Counting.looked_at == training.MAX_ITEMS
    deep = SimpleNamespace(a=SimpleNamespace(b=SimpleNamespace(model=layer())))
    assert found(deep=deep) == []
    wide = {f"a{i}": SimpleNamespace(**{f"b{j}": SimpleNamespace() for j in range(20)}) for i in range(40)}
    assert found(**wide, model=layer()) == ["self.model"]


def test_a_ring_ends():
    ring: list = [layer()]
    ring.append(ring)
    assert found(ring=ring) == ["self.ring[0]"]
