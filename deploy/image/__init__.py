"""OCI images without a daemon: read from registries, given layers, pushed.

`append` puts layers (`layer`) on a base and pushes what the registry lacks; `inspect`, `digest_of`, `layers_of` read.
Synchronous: it is for commands. Errors: `deploy.image.errors`.
"""

from deploy.image.auth import Credentials, Keychain
from deploy.image.build import SCRATCH, Progress, Pushed, Transfer, append, digest_of, inspect, layers_of
from deploy.image.compose import Changes
from deploy.image.connection import Connection
from deploy.image.errors import ImageError
from deploy.image.layer import File, Layer
from deploy.image.layer_cache import LayerCache
from deploy.image.manifest import Image, Platform
from deploy.image.reference import Reference

__all__ = [
    "SCRATCH",
    "Changes",
    "Connection",
    "Credentials",
    "File",
    "Image",
    "ImageError",
    "Keychain",
    "Layer",
    "LayerCache",
    "Platform",
    "Progress",
    "Pushed",
    "Reference",
    "Transfer",
    "append",
    "digest_of",
    "inspect",
    "layers_of",
]
