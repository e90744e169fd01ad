import pytest

from faas import (
    Batching,
    Calls,
    Pad,
    QueuePolicy,
    RateLimit,
    Resources,
    Scaling,
    Selection,
    Sequences,
    Snapshot,
    inference_function,
)
from faas.errors import SettingError
from faas.spec import FunctionSpec
from faas.spec.rate_limit import pool_sizes


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
        (lambda: Batching(slo_ms=0), ["slo_ms=0", "at least 1"]),
        (lambda: Batching(wait_ms=0, slo_ms=1e-9), ["slo_ms=1e-09", "at least 1"]),
        (lambda: Batching(wait_ms=100, slo_ms=50), ["wait_ms=100", "slo_ms=50", "lower wait_ms"]),
        (lambda: Batching(idle="adaptiv"), ["did you mean 'adaptive'"]),
        (lambda: Batching(on_item_error="ignore"), ["isolate, fail_batch"]),
        (lambda: Batching(allowed_batch_sizes=(4, 2)), ["must rise"]),
        (lambda: Batching(max_batch_size=8, allowed_batch_sizes=(1, 4)), ["max_batch_size=8"]),
        (lambda: Batching(max_batch_size=8, allowed_batch_sizes=()), ["must rise"]),
        (lambda: Batching(max_batch_size=8, allowed_batch_sizes=(1, 4, True)), ["must rise"]),
        (lambda: Batching(preferred_batch_sizes=(2,)), ["adaptive", 'idle="wait"']),
        (lambda: Batching(preferred_batch_sizes=(4, 2), idle="wait"), ["must rise"]),
        (lambda: Batching(preferred_batch_sizes=4, idle="wait"), ["preferred_batch_sizes=4", "must rise"]),
        (lambda: Batching(preferred_batch_sizes=(64,), idle="wait"), ["max_batch_size=32", "no batch"]),
        (lambda: Batching(prefered_batch_sizes=(2,)), ["did you mean 'preferred_batch_sizes'"]),
        (
            lambda: Batching(max_batch_size=8, idle="wait", allowed_batch_sizes=(4, 8), preferred_batch_sizes=(2, 4)),
            ["preferred_batch_sizes=(2, 4)", "allowed_batch_sizes=(4, 8)", "a batch of 2 would be padded"],
        ),
        (
            lambda: Batching(slo_ms=100, queue=QueuePolicy(timeout_ms=150)),
            ["slo_ms=100", "timeout_ms=150", "lower timeout_ms"],
        ),
        (
            lambda: Batching(slo_ms=100, priorities=2, levels={2: QueuePolicy(timeout_ms=150, timeout_action="delay")}),
            ["slo_ms=100", "timeout_ms=150"],
        ),
        (
            lambda: FunctionSpec(name="f", batching=Batching(wait_ms=2500), calls=Calls(timeout_s=2)),
            ["wait_ms=2500", "timeout_s=2", "lower wait_ms"],
        ),
        (
            lambda: FunctionSpec(name="f", batching=Batching(slo_ms=2500), calls=Calls(timeout_s=2)),
            ["slo_ms=2500", "timeout_s=2", "lower slo_ms"],
        ),
        (
            lambda: FunctionSpec(
                name="f",
                batching=Batching(priorities=2, levels={2: QueuePolicy(max_queue=50)}),
                calls=Calls(max_queue=20),
            ),
            ["max_queue=50", "level 2", "max_queue=20"],
        ),
        (lambda: Batching(pad=float("nan")), ["value=nan", "finite"]),
        (lambda: Selection(), ["Selection()", "policy"]),  # type: ignore[call-arg]
        (lambda: Selection(policy="exp3", context="X User"), ["context='X User'", "X-User-Id"]),
        (lambda: Selection(policy="exp3", context="X-User-Id:"), ["context='X-User-Id:'"]),
        (lambda: Batching(instances=0), ["instances=0", "from 1"]),
        (lambda: Batching(rows=1), ["rows=1", "True or False"]),
        (lambda: Batching(buckets=(8, 16)), ["buckets=(8, 16)", "set pad=0"]),
        (lambda: Batching(buckets=(16, 8), pad=0), ["must rise"]),
        (lambda: Batching(rows=True, pad=0), ["take one"]),
        (lambda: Batching(pad="0"), ["pad='0'", "collate"]),
        (lambda: Batching(pad=True), ["pad=True", "collate"]),
        (lambda: Batching(rows=True, sequences=Sequences()), ["rows=True", "sequences"]),
        (lambda: Batching(slo_ms=100, sequences=Sequences()), ["slo_ms=100", "leave one of them out"]),
        (lambda: Batching(instances=2, sequences=Sequences()), ["instances=2", "set instances=1"]),
        (lambda: Batching(allowed_batch_sizes=(32,), sequences=Sequences()), ["(32,)", "steps of its last sequence"]),
        (lambda: Batching(sequences=True), ["sequences=True", "Sequences(...)"]),
        (lambda: Batching(default_priority=2), ["default_priority=2", "from 1 to 1"]),
        (lambda: Batching(queue=5), ["queue=5", "QueuePolicy(...)"]),
        (lambda: Batching(levels={3: QueuePolicy()}, priorities=2), ["levels={3:", "priorities=2", "no such level"]),
        (lambda: Batching(levels={1: 5}), ["levels={1: 5}", "QueuePolicy(...)"]),
        (lambda: Batching(levels=[QueuePolicy()]), ["must map levels"]),
        (lambda: Batching(preserve_order=True, priorities=2), ["preserve_order=True", "priorities=2"]),
        (
            lambda: Batching(idle="wait", wait_ms=5, queue=QueuePolicy(timeout_ms=5)),
            ["wait_ms=5", "timeout_ms=5", "lower wait_ms"],
        ),
        (lambda: QueuePolicy(timeout_action="drop"), ["timeout_action='drop'", "reject, delay"]),
        (lambda: QueuePolicy(timeout_action="delay"), ["delay", "set timeout_ms"]),
        (lambda: QueuePolicy(timeout_ms=0), ["timeout_ms=0", "above 0"]),
        (lambda: QueuePolicy(max_queue=0), ["max_queue=0", "at least 1"]),
        (lambda: QueuePolicy(max_que=1), ["did you mean 'max_queue'"]),
        (lambda: RateLimit(), ["RateLimit()", "resources"]),  # type: ignore[call-arg]
        (lambda: RateLimit(resources={}), ["limits nothing"]),
        (lambda: RateLimit(resources=5), ["resources=5", "must map names"]),
        (lambda: RateLimit(resources={" ": 1}), ["' '", "needs a name"]),
        (lambda: RateLimit(resources={5: 1}), ["{5: ...}", "needs a name"]),
        (lambda: RateLimit(resources={"a": 0}), ["{'a': 0}", "1 at least"]),
        (lambda: RateLimit(resources={"a": 1.5}), ["{'a': 1.5}", "whole number of units"]),
        (lambda: RateLimit(resources={"a": 1}, priority=0), ["priority=0", "at least 1"]),
        (lambda: RateLimit(resources={"a": 1}, pools={"a": True}), ["pools={'a': True}"]),
        (lambda: Batching(rate_limit=5), ["rate_limit=5", "RateLimit(...)"]),
        (lambda: Batching(rate_limit={}), ["rate_limit={}", "RateLimit(...)"]),
        (lambda: Batching(rate_limit={"predict": 5}), ["rate_limit={'predict': 5}"]),
        (
            lambda: Batching(rate_limit=RateLimit(resources={"a": 3}, pools={"a": 2})),
            ["resources={'a': 3}", "pools={'a': 2}", "for ever"],
        ),
        (
            lambda: Batching(rate_limit=RateLimit(resources={"copies": 3}, pools={"copy": 2})),
            ["{'copy': 2}", "did you mean 'copies'"],
        ),
        (
            lambda: Batching(
                rate_limit={
                    "one": RateLimit(resources={"a": 1}, pools={"a": 2}),
                    "other": RateLimit(resources={"a": 1}, pools={"a": 3}),
                }
            ),
            ["{'a': 3}", "another one says 2"],
        ),
        (lambda: Pad(side="top"), ["side='top'", "right, left"]),
        (lambda: Pad(value="0"), ["value='0'", "number"]),
        (lambda: Pad(mask="a b"), ["mask='a b'", "name of a parameter"]),
        (lambda: Pad(mask="m", lengths="m"), ["name two parameters"]),
        (lambda: Pad(collate=5), ["collate=5"]),
        (lambda: Pad(collate=dict, value=1), ["value=1", "leave value out"]),
        (lambda: Sequences(idle_s=0), ["idle_s=0", "above 0"]),
        (lambda: Sequences(num_slots=0), ["num_slots=0"]),
        (lambda: Scaling(min_instances=5, max_instances=2), ["the least is more than the most"]),
        (lambda: Scaling(max_instances=""), ["max_instances=''"]),
        (lambda: Scaling(min_instances=-1), ["-1"]),
        (lambda: Scaling(target_inputs="10%"), ["10%"]),
        (lambda: Scaling(target_inputs=9, max_inputs=3), ["aim at more than it may hold"]),
        (lambda: Scaling(target_rps=0), ["target_rps=0"]),
        (lambda: Scaling(target_rps=5, target_inputs=3), ["give one of the two"]),
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
        (lambda: Resources(gpu="1Gi"), ["gpu='1Gi'"]),
        (lambda: Resources(gpu=0.5), ["gpu=0.5"]),
        (lambda: Resources(gpu=True), ["gpu=True"]),
        (lambda: Resources(gpu="A100:"), ["gpu='A100:'"]),
        (lambda: Resources(gpu=":2"), ["gpu=':2'"]),
        (lambda: Resources(cpu=0), ["cpu=0"]),
        (lambda: Resources(memory="lots"), ["lots"]),
        (lambda: Snapshot(mode="stat"), ["did you mean 'state'"]),
        (lambda: Snapshot(mode="weights", export="onnx"), ["weights", "onnx", 'mode="state"']),
        (lambda: FunctionSpec(name="a", load="maps"), ["load='maps'", "did you mean 'map'", "direct"]),
        (lambda: FunctionSpec(name="My_Name"), ["My_Name", "my-name"]),
        (
            lambda: FunctionSpec(name="a", batching=Batching(sequences=Sequences())),
            ["max_instances=3", "Scaling(max_instances=1)"],
        ),
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


@pytest.mark.parametrize(
    ("gpu", "number"),
    [(None, 0), ("0", 0), (0, 0), ("1", 1), (1, 1), ("2", 2), ("L4", 1), ("A100:2", 2), ("H100", 1), ("A100-80GB", 1)],
)
def test_gpus_are_counted_from_number_kind_or_both(gpu, number):
    assert Resources(gpu=gpu).num_gpus == number


def test_sizes_are_bytes():
    assert Resources(memory="2Gi").memory_bytes == 2 * 2**30
    assert Calls(max_payload="1.5M").max_payload_bytes == 1_500_000
    assert Calls(max_payload="7").max_payload_bytes == 7


def test_a_number_and_a_function_stand_for_a_pad():
    assert Batching(pad=-1).padding == Pad(value=-1)
    assert Batching(pad=max).padding == Pad(collate=max)
    assert Batching(pad=Pad(mask="m", lengths="n")).padding.names == ("m", "n")
    assert Batching().padding is None


def test_lists_are_taken_for_sizes():
    made = Batching(
        max_batch_size=8, idle="wait", allowed_batch_sizes=[4, 8], preferred_batch_sizes=[4], pad=0, buckets=[9]
    )
    assert (made.allowed_batch_sizes, made.preferred_batch_sizes, made.buckets) == ((4, 8), (4,), (9,))


def test_d8_a_pool_has_as_many_units_as_the_most_that_is_asked_of_it():
    made = Batching(
        rate_limit={
            "one": RateLimit(resources={"a": 2, "b": 1}, pools={"b": 5}),
            "other": RateLimit(resources={"a": 3}),
        }
    )
    assert pool_sizes(made.limits) == {"a": 3, "b": 5}
    assert made.limit_of("other").resources == {"a": 3}
    assert made.limit_of("third") is None
    assert Batching(rate_limit=RateLimit(resources={"a": 2})).limit_of("third").resources == {"a": 2}
    assert Batching().limits == ()


def test_d8_a_limit_is_of_a_method_that_answers():
    def predict(xs: list[int]) -> list[int]:
        return xs

    def limited(method):
        limits = {method: RateLimit(resources={"a": 1})}
        return inference_function(batching=Batching(rate_limit=limits))(predict)

    assert limited("predict").spec.batching.limits
    with pytest.raises(SettingError, match=r"'predic': ...}\) is for no method .*did you mean 'predict'.*do: predict"):
        limited("predic")


def test_policies_are_frozen_values():
    assert Batching() == Batching(max_batch_size=32, wait_ms=5)
    with pytest.raises(AttributeError):
        Batching().wait_ms = 3
