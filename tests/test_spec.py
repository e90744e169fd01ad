import pytest

from faas import Batching, Calls, Resources, Scaling, Snapshot
from faas.errors import SettingError
from faas.spec import FunctionSpec


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Batching(max_batchsize=3), ["max_batchsize", "did you mean 'max_batch_size'"]),
        (lambda: Batching(3), ["keywords only"]),
        (lambda: Batching(max_batch_size=0), ["max_batch_size=0", "from 1"]),
        (lambda: Batching(max_batch_size=True), ["max_batch_size=True"]),
        (lambda: Batching(max_batch_size=2.5), ["2.5"]),
        (lambda: Batching(wait_ms=-1), ["wait_ms=-1"]),
        (lambda: Batching(wait_ms=float("nan")), ["wait_ms=nan", "finite"]),
        (lambda: Batching(slo_ms=0), ["slo_ms=0", "above 0"]),
        (lambda: Batching(wait_ms=100, slo_ms=50), ["wait_ms=100", "slo_ms=50", "lower wait_ms"]),
        (lambda: Batching(idle="adaptiv"), ["did you mean 'adaptive'"]),
        (lambda: Batching(on_item_error="ignore"), ["isolate, fail_batch"]),
        (lambda: Batching(allowed_batch_sizes=(4, 2)), ["must rise"]),
        (lambda: Batching(max_batch_size=8, allowed_batch_sizes=(1, 4)), ["max_batch_size=8"]),
        (lambda: Batching(max_batch_size=8, allowed_batch_sizes=()), ["must rise"]),
        (lambda: Scaling(min_instances=5, max_instances=2), ["the least is more than the most"]),
        (lambda: Scaling(max_instances=""), ["max_instances=''"]),
        (lambda: Scaling(min_instances=-1), ["-1"]),
        (lambda: Scaling(target_inputs="10%"), ["10%"]),
        (lambda: Scaling(target_inputs=9, max_inputs=3), ["aim at more than it may hold"]),
        (lambda: Scaling(keep_alive="histogramm"), ["keep_alive='histogramm'", "did you mean 'histogram'"]),
        (lambda: Scaling(activation_scale=9), ["activation_scale=9", "max_instances=3"]),
        (lambda: Calls(timeout_s=0), ["timeout_s=0"]),
        (lambda: Calls(max_payload="4gb"), ["4gb", "Mi"]),
        (lambda: Calls(max_payload="0"), ["larger than zero"]),
        (lambda: Calls(max_queue=-1), ["max_queue=-1"]),
        (lambda: Resources(gpu="0.5"), ["0.5", "A100:2"]),
        (lambda: Resources(gpu="-1"), ["-1"]),
        (lambda: Resources(gpu="A100:0"), ["A100:0"]),
        (lambda: Resources(gpu=""), ["gpu=''"]),
        (lambda: Resources(cpu=0), ["cpu=0"]),
        (lambda: Resources(memory="lots"), ["lots"]),
        (lambda: Snapshot(mode="stat"), ["did you mean 'state'"]),
        (lambda: Snapshot(mode="weights", export="onnx"), ["weights", "onnx", 'mode="state"']),
        (lambda: FunctionSpec(name="a", load="maps"), ["load='maps'", "did you mean 'map'", "direct"]),
        (lambda: FunctionSpec(name="My_Name"), ["My_Name", "my-name"]),
        (lambda: FunctionSpec(name="a", batching=5), ["batching=5", "Batching"]),
        (lambda: FunctionSpec(name="a", requirements="torch"), ["requirements='torch'", "list"]),
        (lambda: FunctionSpec(name="a", env={"A": 1}), ["text to text"]),
        (lambda: FunctionSpec(name="a", warmup="x"), ["list of example inputs"]),
        (lambda: FunctionSpec(name="a", recycle_after=0), ["recycle_after=0"]),
    ],
)
def test_a_wrong_setting_is_refused_with_its_value_and_what_to_do(make, words):
    with pytest.raises(SettingError) as caught:
        make()
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(("gpu", "number"), [(None, 0), ("1", 1), ("2", 2), ("L4", 1), ("A100:2", 2), ("H100", 1)])
def test_gpus_are_counted_from_number_kind_or_both(gpu, number):
    assert Resources(gpu=gpu).num_gpus == number


def test_sizes_are_bytes():
    assert Resources(memory="2Gi").memory_bytes == 2 * 2**30
    assert Calls(max_payload="1.5M").max_payload_bytes == 1_500_000
    assert Calls(max_payload="7").max_payload_bytes == 7


def test_policies_are_frozen_values():
    assert Batching() == Batching(max_batch_size=32, wait_ms=5)
    with pytest.raises(AttributeError):
        Batching().wait_ms = 3
