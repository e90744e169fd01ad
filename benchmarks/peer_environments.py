"""Virtual environments of the peers, made once and kept: what a peer needs is not what this project needs.

Each sees the packages of the running environment behind its own, so that all start the same torch and transformers.
"""

import asyncio
import hashlib
import os
import shutil
import sys
import sysconfig
import venv
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from pathlib import Path

REQUIREMENTS = {
    "litserve": ("litserve==0.2.19",),
    "bentoml": ("bentoml==1.4.40",),
    "mlserver": ("mlserver==1.7.1",),
    "ray_serve": ("ray[serve]==2.60.0",),
    "kserve": ("kserve==0.21.0",),
}
_INSTALL_WITHIN_S = 900.0
_MADE = "made"


class NotInstalledError(Exception):
    """A peer's packages could not be had; the message holds the end of what pip said."""


async def python_of(peer: str) -> Path:
    """Return the interpreter that has a peer's packages; the first call makes its environment.

    Raises NotInstalledError.
    """
    folder = _folder(peer)
    python = folder / "bin" / "python"
    if (folder / _MADE).exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    try:
        await asyncio.to_thread(_make, folder)
        await _install(python, REQUIREMENTS[peer])
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    (folder / _MADE).touch()
    return python


def _folder(peer: str) -> Path:
    """Return where a peer's environment lies: another one for other requirements, or behind other packages."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = "\0".join((*REQUIREMENTS[peer], sys.version, sys.prefix))
    return cache / "faas-benchmarks" / f"{peer}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _make(folder: Path) -> None:
    venv.create(folder, with_pip=True)
    [own] = folder.glob("lib/python*/site-packages")
    (own / "behind.pth").write_text(sysconfig.get_path("purelib") + "\n")


async def _install(python: Path, requirements: tuple[str, ...]) -> None:
    pip = [str(python), "-m", "pip", "install", "--quiet", "--prefer-binary", *requirements]
    process = await asyncio.create_subprocess_exec(*pip, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT)
    try:
        async with asyncio.timeout(_INSTALL_WITHIN_S):
            said, _ = await process.communicate()
    except TimeoutError:
        raise NotInstalledError(f"{requirements}: pip took over {_INSTALL_WITHIN_S:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise NotInstalledError(f"{requirements}: {said.decode(errors='replace')[-800:]}")
