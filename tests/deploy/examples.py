"""Descriptions that differ in what they ask for; `golden/` holds the manifest of each."""

from deploy import Probes, Resources, Scaling, SecretRef, ServiceSpec, SnapshotVolume, Timeouts

DIGEST = "sha256:" + "0123456789abcdef" * 4

EXAMPLES = {
    "hello": ServiceSpec(name="hello", image="ghcr.io/acme/hello:1"),
    "python_name": ServiceSpec(name="My_Model.v2", image="ghcr.io/acme/my-model:1", namespace="team-vision"),
    "batched_on_gpu": ServiceSpec(
        name="embed",
        image=f"ghcr.io/acme/embed@{DIGEST}",
        command=["python", "-m", "faas.instance"],
        args=["--port", "8000"],
        resources=Resources(cpu=4, memory="16Gi", num_gpus=1),
        scaling=Scaling(
            max_instances=8, target_inputs=32, max_inputs=64, scaledown_window_s=300, scale_down_delay_s=90
        ),
        snapshot=SnapshotVolume(kind="hostPath", source="/var/lib/faas/snapshots"),
    ),
    "gpu_by_kind": ServiceSpec(
        name="llm",
        image="registry.internal:5000/llm:2026-01",
        resources=Resources(cpu="7500m", memory="60G", num_gpus=2, gpu_kind="A100-80GB"),
        scaling=Scaling(min_instances=1, max_instances=2, target_inputs=100, max_inputs=200),
    ),
    "amd_gpu": ServiceSpec(
        name="embed-amd",
        image="ghcr.io/acme/embed:rocm",
        resources=Resources(
            num_gpus=1, gpu_resource="amd.com/gpu", gpu_kind="MI300X", gpu_kind_label="amd.com/gpu.product-name"
        ),
    ),
    "slow_to_load": ServiceSpec(
        name="ocr",
        image="ghcr.io/acme/ocr:3",
        timeouts=Timeouts(timeout_s=120, startup_timeout_s=600, grace_period_s=60),
        snapshot=SnapshotVolume(kind="pvc", source="models", sub_path="ocr/v3", mount_path="/models"),
    ),
    "stops_slowly": ServiceSpec(
        name="ticker",
        image="ghcr.io/acme/ticker:1",
        timeouts=Timeouts(timeout_s=2.5, startup_timeout_s=9.2, grace_period_s=45),
        scaling=Scaling(target_inputs=0.5, scaledown_window_s=2, activation_scale=2),
        probes=Probes(startup=False),
    ),
    "secrets_and_literals": ServiceSpec(
        name="search",
        image="ghcr.io/acme/search:1",
        args=["--pattern", "$(HOME)|^a$$"],
        env={"PASSWORD": "pa$$word", "BATCH": "1e3", "FLAG": "y", "EMPTY": "", "NOTE": "two\nlines: yes"},
        secrets=(SecretRef(name="search-settings"), SecretRef(name="hub", key="token", env="HF_TOKEN")),
        service_account="search",
        run_as_user=65532,
    ),
    "snapshot_image": ServiceSpec(
        name="classify",
        image="ghcr.io/acme/runtime:1",
        snapshot=SnapshotVolume(kind="image", source=f"ghcr.io/acme/classify-snapshot@{DIGEST}"),
        labels={"team": "vision"},
        annotations={
            "networking.knative.dev/disable-external-domain-tls": "true",
            "autoscaling.knative.dev/initial-scale": "2",
            "example.com/owner": "Zoë",
        },
    ),
    "snapshot_fetched": ServiceSpec(
        name="iris",
        image="ghcr.io/acme/runtime:1",
        port=9000,
        resources=Resources(cpu=0.25, memory="256Mi"),
        scaling=Scaling(max_instances=0, max_inputs=0),
        snapshot=SnapshotVolume(kind="emptyDir", source="s3://models/iris/7f3a", size_limit="1Gi"),
    ),
    "long_name": ServiceSpec(
        name="classify_" + "very_" * 30 + "long", image="ghcr.io/acme/classify:1", namespace="team-vision"
    ),
    "ready_for_a_canary": ServiceSpec(
        name="rank",
        image=f"ghcr.io/acme/rank@{DIGEST}",
        scaling=Scaling(min_instances=1, max_instances=10, target_inputs=16, max_inputs=32),
        annotations={"serving.knative.dev/rollout-duration": "120s"},
    ),
    "pool": ServiceSpec(
        name="gpu-a",
        image="ghcr.io/acme/runtime:1",
        command=["faas"],
        args=["up", "--host", "0.0.0.0", "--port", "8000", "--functions", "s3://models/prod/pools/gpu-a"],
        env={"FAAS_HOME": "/tmp/faas", "FAAS_MEMORY": "27487790694", "FAAS_LAME_DUCK_S": "5"},
        secrets=(SecretRef(name="gpu-a-token", key="FAAS_TOKEN", env="FAAS_TOKEN"), SecretRef(name="bucket")),
        resources=Resources(cpu=8, memory="32Gi", num_gpus=1, gpu_kind="L4"),
        scaling=Scaling(min_instances=1, max_instances=4, target_inputs=64, max_inputs=0, scaledown_window_s=300),
        timeouts=Timeouts(timeout_s=240, startup_timeout_s=300),
        labels={"app.kubernetes.io/component": "pool"},
    ),
}
