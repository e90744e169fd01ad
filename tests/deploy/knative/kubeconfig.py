"""Kubeconfigs for tests."""

from pathlib import Path
from typing import Any

import yaml


def write(folder: Path, url: str, *, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None) -> str:
    """A kubeconfig with the contexts `here` (current) and `team` (with a namespace); the path of the file."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": url, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {"token": "t0ken"}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "team", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}},
        ],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)
