"""Who one is to a registry, as Docker's configuration says it. First found counts:

1. `FAAS_REGISTRY_USER` and `FAAS_REGISTRY_PASSWORD`, for the registry that `FAAS_REGISTRY` names and no other;
2. the document in `DOCKER_AUTH_CONFIG`;
3. `config.json` in `DOCKER_CONFIG`, or in `~/.docker`: `credHelpers`, then `auths`, then `credsStore`;
4. what podman and buildah write, in the same form: `REGISTRY_AUTH_FILE`, or `containers/auth.json` in `XDG_RUNTIME_DIR`
   and in `~/.config`.

Helpers are programs `docker-credential-NAME` on the PATH; they may ask a cloud, so they have half a minute.
"""

import base64
import binascii
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.image.errors import CredentialsError
from deploy.image.reference import DOCKER_HUB

_DOCKER_HUB_KEY = "https://index.docker.io/v1/"
_HELPER_WITHIN_S = 30.0
_TOKEN_USER = "<token>"  # a helper's way to say that the secret is an identity token
_NONE_KEPT = "credentials not found"


@dataclass(frozen=True)
class Credentials:
    """A user with a password, or an identity token, which is changed for access tokens."""

    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """The value of the Authorization header of the Basic scheme (RFC 7617)."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


class Keychain:
    """The credentials of one environment; read when they are asked for."""

    def __init__(self, environment: Mapping[str, str] = os.environ, helper_within_s: float = _HELPER_WITHIN_S) -> None:
        self._environment = environment
        self._helper_within_s = helper_within_s

    def find(self, registry: str) -> Credentials | None:
        """Return the credentials for a registry, None where there are none.

        Raises:
            CredentialsError: the configuration cannot be read, or a helper fails.
        """
        ours = self._of_variables(registry)
        if ours is not None:
            return ours
        text = self._environment.get("DOCKER_AUTH_CONFIG")
        if text:
            found = self._of_document(_parsed(text, "DOCKER_AUTH_CONFIG"), "DOCKER_AUTH_CONFIG", registry)
            if found is not None:
                return found
        for path in self._files():
            try:
                text = path.read_text()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, UnicodeDecodeError) as error:
                raise CredentialsError(f"{path} cannot be read: {error}", "make it readable, or move it away") from None
            found = self._of_document(_parsed(text, str(path)), str(path), registry)
            if found is not None:
                return found
        return None

    def _of_variables(self, registry: str) -> Credentials | None:
        names = ("FAAS_REGISTRY", "FAAS_REGISTRY_USER", "FAAS_REGISTRY_PASSWORD")
        host, user, password = (self._environment.get(name, "") for name in names)
        if user and not host:
            raise CredentialsError(
                "FAAS_REGISTRY_USER is set without FAAS_REGISTRY", "name the registry that it is for"
            )
        return Credentials(user, password) if user and host == registry else None

    def _files(self) -> list[Path]:
        """The files that may hold credentials, whether they are there or not, the first that counts first."""
        variable, home = self._environment.get, Path(self._environment.get("HOME") or "/")
        of_docker = Path(variable("DOCKER_CONFIG") or home / ".docker") / "config.json"
        if named := variable("REGISTRY_AUTH_FILE"):
            return [of_docker, Path(named)]
        folders = [Path(folder) for folder in (variable("XDG_RUNTIME_DIR"), home / ".config") if folder]
        return [of_docker, *(folder / "containers" / "auth.json" for folder in folders)]

    def _of_document(self, document: Mapping[str, Any], where: str, registry: str) -> Credentials | None:
        key = _DOCKER_HUB_KEY if registry == DOCKER_HUB else registry
        helpers = _member(document, "credHelpers", where)
        helper = helpers.get(key, helpers.get(registry))
        if isinstance(helper, str) and helper:
            return self._of_helper(helper, key, f"credHelpers of {where}")
        auths = _member(document, "auths", where)
        for name in (key, *auths):
            entry = auths.get(name)
            if isinstance(entry, Mapping) and _host(name) in (_host(key), registry):
                found = _of_entry(entry, f"auths[{name!r}] of {where}")
                if found is not None:
                    return found
        store = document.get("credsStore")
        return self._of_helper(store, key, f"credsStore of {where}") if isinstance(store, str) and store else None

    def _of_helper(self, name: str, key: str, where: str) -> Credentials | None:
        program = f"docker-credential-{name}"
        found = shutil.which(program, path=self._environment.get("PATH"))
        if found is None:
            raise CredentialsError(f"{where} names {program}, which is not on the PATH", "install it, or take it out")
        try:
            ended = subprocess.run(
                [found, "get"],
                input=key,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._helper_within_s,
                env=dict(self._environment),
            )
        except subprocess.TimeoutExpired:
            raise CredentialsError(
                f"{program} gave nothing for {key} within {self._helper_within_s:g} s",
                f"try: echo {key} | {program} get",
            ) from None
        except OSError as error:
            raise CredentialsError(f"{found} cannot be run: {error.strerror}", "install it anew") from None
        if ended.returncode != 0:
            said = (ended.stdout.strip() or ended.stderr.strip())[:300]
            if _NONE_KEPT in said.lower():
                return None
            raise CredentialsError(f"{program} failed for {key}: {said}", "log in to the registry anew")
        return _of_answer(ended.stdout, program)


def _of_answer(text: str, program: str) -> Credentials | None:
    answer = _parsed(text, f"what {program} gave", hidden=True)
    user, secret = answer.get("Username"), answer.get("Secret")
    if not isinstance(user, str) or not isinstance(secret, str):
        raise CredentialsError(f"{program} gave no Username and Secret", "install a version that does")
    if not secret:
        return None
    return Credentials(identity_token=secret) if user == _TOKEN_USER else Credentials(user, secret)


def _of_entry(entry: Mapping[str, Any], where: str) -> Credentials | None:
    token = entry.get("identitytoken")
    if isinstance(token, str) and token:
        return Credentials(identity_token=token)
    if entry.get("auth"):
        try:
            decoded = base64.b64decode(entry["auth"], validate=True).decode()
        except (binascii.Error, UnicodeDecodeError, TypeError, ValueError):
            decoded = ""
        if ":" not in decoded:
            raise CredentialsError(f"{where} has an 'auth' that is no base64 of user:password", "log in anew")
        return Credentials(*decoded.rstrip("\0").split(":", 1))
    user, password = entry.get("username"), entry.get("password")
    return Credentials(user, password) if isinstance(user, str) and isinstance(password, str) and user else None


def _member(document: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    found = document.get(name) or {}
    if not isinstance(found, Mapping):
        raise CredentialsError(f"{name} of {where} is no object", "correct the file")
    return found


def _parsed(text: str, where: str, *, hidden: bool = False) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = "" if hidden else f" ({error})"  # what a helper gives may hold a secret
        raise CredentialsError(f"{where} is no JSON{why}", "correct it, or log in to the registry anew") from None
    if not isinstance(document, dict):
        raise CredentialsError(f"{where} is no JSON object", "correct it, or log in to the registry anew")
    return document


def _host(key: str) -> str:
    return key.partition("://")[2].partition("/")[0] if "://" in key else key.partition("/")[0]
