"""What the environment says."""

import pytest

from faas import settings
from faas.errors import SettingError


def test_st_09_the_load_mode():
    assert settings.read({}).snapshot_load is None
    assert settings.read({"FAAS_SNAPSHOT_LOAD": " read "}).snapshot_load == "read"
    with pytest.raises(SettingError, match=r"FAAS_SNAPSHOT_LOAD='maps'.*auto, map, read, direct"):
        settings.read({"FAAS_SNAPSHOT_LOAD": "maps"})


def test_what_a_platform_may_hold():
    assert settings.read({}).memory_bytes is None
    assert settings.read({"FAAS_MEMORY": "8Gi"}).memory_bytes == 8 * 2**30
    with pytest.raises(SettingError, match="FAAS_MEMORY='much' is no size"):
        settings.read({"FAAS_MEMORY": "much"})


def test_how_a_platform_keeps_functions_warm():
    assert settings.read({}).keep_alive is None
    assert settings.read({"FAAS_KEEP_ALIVE": "histogram"}).keep_alive == "histogram"
    with pytest.raises(SettingError, match=r"FAAS_KEEP_ALIVE='long'.*fixed, histogram"):
        settings.read({"FAAS_KEEP_ALIVE": "long"})


def test_the_grace_before_zero():
    assert settings.read({}).scale_to_zero_grace_s == 0.0
    assert settings.read({"FAAS_SCALE_TO_ZERO_GRACE_S": "30"}).scale_to_zero_grace_s == 30.0
    with pytest.raises(SettingError, match="FAAS_SCALE_TO_ZERO_GRACE_S='-1'"):
        settings.read({"FAAS_SCALE_TO_ZERO_GRACE_S": "-1"})


def test_what_a_container_is_told():
    assert settings.read({}).bundle is None
    assert settings.read({"FAAS_BUNDLE": "s3://bucket/embed "}).bundle == "s3://bucket/embed"
    assert settings.read({"PORT": "8012"}).port == 8012
    assert settings.read({"PORT": "tcp://10.0.0.1:80"}).port is None
    assert settings.read({}).lame_duck_s is None
    assert settings.read({"FAAS_LAME_DUCK_S": "0"}).lame_duck_s == 0.0


def test_where_deployments_go():
    found = settings.read({})
    assert (found.image_repository, found.base_image, found.store, found.namespace, found.ingress) == (None,) * 5
    found = settings.read(
        {
            "FAAS_IMAGE": "registry.test/team/",
            "FAAS_STORE": "s3://bucket/here/",
            "AWS_REGION": "here-1",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
    )
    assert (found.image_repository, found.store) == ("registry.test/team", "s3://bucket/here")
    assert found.s3_places == {"AWS_REGION": "here-1"}
    with pytest.raises(SettingError, match=r"FAAS_STORE='here': must be s3://bucket/prefix"):
        settings.read({"FAAS_STORE": "here"})


def test_what_names_a_cluster(tmp_path):
    assert not settings.names_cluster({})
    assert not settings.names_cluster({"HOME": str(tmp_path), "KUBECONFIG": ":"})
    assert settings.names_cluster({"KUBECONFIG": "/somewhere"})
    assert settings.names_cluster({"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("")
    assert settings.names_cluster({"HOME": str(tmp_path)})
