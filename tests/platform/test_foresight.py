import pytest

from faas.platform.foresight import on_cluster
from tests.platform.test_loop import description


@pytest.mark.parametrize(("timeout_s", "startup_timeout_s"), [(60.0, 300.0), (300.0, 300.0), (599.0, 0.5)])
def test_kn_09_what_a_cluster_takes_is_no_matter(timeout_s, startup_timeout_s):
    assert on_cluster(description(timeout_s=timeout_s, startup_timeout_s=startup_timeout_s)) is None


def test_kn_09_times_over_the_cap_of_clusters_are_told_with_the_setting():
    warning = on_cluster(description(timeout_s=900.0, startup_timeout_s=300.0))
    parts = ("timeout_s=900", "startup_timeout_s=300", "600 s", "max-revision-timeout-seconds")
    assert [part for part in parts if part not in warning] == []
