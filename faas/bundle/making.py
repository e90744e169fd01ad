"""A bundle made: what a function reaches found, copied or pickled, said in `bundle.json`, and loaded once elsewhere."""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import msgspec
from packaging.requirements import Requirement

from faas.bundle import blame, editable, included, reading, sources, verifying
from faas.bundle import rebound as rebounds
from faas.bundle.errors import BadBundle, Unbundleable
from faas.bundle.manifest import CODE, MANIFEST, PAYLOAD, PREPARATION, SNAPSHOT, Bundle, File
from faas.bundle.prepared import travelling
from faas.bundle.reached import Reached, Walk
from faas.bundle.rebuilt import MAIN
from faas.bundle.shared import BY_VALUE, has_file
from faas.errors import TargetError
from faas.function import Function
from faas.preparation import Preparation, distribution_version
from faas.requirements import with_password
from faas.targets import Target
from snapshot import libraries
from snapshot.s3_address import is_s3

MAX_PAYLOAD_BYTES: Final = 64 << 20
_STAGING: Final = ".staging-"


def make(
    target: str | Function,
    into: Path,
    *,
    include: Iterable[str] = (),
    preparation: Preparation | None = None,
    with_snapshot: bool = False,
    verify: bool = True,
    fresh: bool = False,
) -> Bundle:
    """Make the folder `into` the bundle of one function, given itself or as a target; one that is there is replaced.

    include: patterns of files to travel too, relative to the folder of the function's file (`labels.txt`, `assets/**`),
    beside those that the function's own `include=` names
    preparation: what is known of the function since it was made ready; `with_snapshot` takes its frozen state along
    verify: load the bundle once in a clean interpreter, without the user's files
    fresh: nothing has bound globals of its modules anew since they were imported; saves importing them again to see
    Values of globals are those of now; a target is imported here, unless it is.

    Raises:
        Unbundleable: something that the function needs cannot travel, or it cannot be loaded elsewhere; says what.
        TargetError: the target names no function, or several.
        BadBundle: `into` is a folder with something else in it.
        OSError: it cannot be written.
    """
    into = into.absolute()
    _refuse_other(into)
    # The interpreter starts while the target is imported.
    with verifying.CleanInterpreter() if verify else nullcontext() as interpreter:
        function, folder = _found(target)
        into.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=into.parent))
        staging.chmod(0o755)  # it is read by other users: a container's, which is not root
        try:
            making = _Making(function, folder, staging, fresh)
            making.include([*function.spec.include, *include])
            if preparation is not None:
                making.prepared(preparation, with_snapshot)
            bundle = making.write()
            if interpreter is not None:
                bundle = making.verified(bundle, interpreter)
            if into.exists():
                shutil.rmtree(into)
            staging.rename(into)
            return bundle
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _refuse_other(into: Path) -> None:
    if into.is_dir() and any(into.iterdir()) and not (into / MANIFEST).is_file():
        raise BadBundle(f"{into} has something else in it; name a folder that is new, empty, or an older bundle")
    if into.exists() and not into.is_dir():
        raise BadBundle(f"{into} is no folder; name one")


def _found(target: str | Function) -> tuple[Function, Path | None]:
    """Return the function, and the folder that its file lies in."""
    if isinstance(target, Function):
        file = getattr(sys.modules.get(str(target.__module__)), "__file__", None)
        return target, Path(file).absolute().parent if isinstance(file, str) else None
    meant = Target.of(target)
    functions = list(meant.load().values())
    if len(functions) > 1:
        names = ", ".join(f.name for f in functions)
        raise TargetError(f"{target} defines several functions: {names}; name one: {target}:{functions[0].name}")
    return functions[0], meant.folder


@dataclass
class _Making:
    """One bundle while it is made in `staging`."""

    function: Function
    folder: Path | None
    staging: Path
    fresh: bool
    reached: Reached = field(default_factory=Reached)
    files: dict[str, Path | bytes] = field(default_factory=dict)
    referred: set[str] = field(default_factory=set)
    made: tuple[str, ...] = ()
    told: list[str] = field(default_factory=list)
    target: str = ""

    def __post_init__(self) -> None:
        self.walk = Walk(self.folder)
        self.reached = self.walk.reached
        key = self._key()
        if key is None:
            module, name = str(self.function.__module__), str(self.function.__qualname__)
            self.target = f"{MAIN if module in BY_VALUE else module}:{name}"
        else:
            self.target = f"{self.function.__module__}:{key}"
            self.walk.add([str(self.function.__module__)])
        self.payload(by_value=key is None)

    def _key(self) -> str | None:
        """Return the name that the function has in its module's file; None where it goes by value."""
        module = str(self.function.__module__)
        if not has_file(module):
            return None
        return next((key for key, one in vars(sys.modules[module]).items() if one is self.function), None)

    def payload(self, *, by_value: bool) -> None:
        """Pickle what has no file, and follow what that imports. Raises Unbundleable."""
        rebound: dict[str, dict[str, Any]] = {}
        what = {"function": self.function if by_value else None, "globals": rebound}
        if by_value:
            _, pickler = blame.pickled(what, has_file)
            self._follow(pickler)
        if not self.fresh:
            found, self.told = rebounds.rebound(self.reached.local.values(), has_file)
            rebound |= found
        if not by_value and not rebound:
            return
        content, pickler = blame.pickled(what, has_file)
        self._follow(pickler)
        if len(content) > MAX_PAYLOAD_BYTES:
            raise Unbundleable(
                f"what {self.function.name} holds comes to {len(content) / 1e6:.1f} MB", "make large things in setup()"
            )
        self.files[PAYLOAD] = content
        self.referred = set(pickler.modules) - set(self.reached.local)
        self.made = tuple(pickler.made)
        self.told += [
            f"the value of {name}, a variable of this environment, travels in the bundle, for all to read who have it: "
            f"have the function read it from os.environ, and give it by secrets="
            for name in pickler.secrets
        ]
        self.files |= {f"{CODE}/{path}": text for path, text in sources.of(pickler.files).items()}

    def _follow(self, pickler: Any) -> None:
        for code, package in pickler.codes:
            self.walk.add_code(code, package)
        self.walk.add(sorted(pickler.modules))

    def include(self, patterns: Iterable[str]) -> None:
        """Take along the files that the user asks for. Raises Unbundleable."""
        for pattern in patterns:
            found = included.matching(self.folder, self.reached.local.values(), pattern)
            self.files |= {f"{CODE}/{goes_to}": path for goes_to, path in found.items()}

    def prepared(self, preparation: Preparation, with_snapshot: bool) -> None:
        """Take along what is known of the function since it was made ready. Raises Unbundleable."""
        travels = {str(module.file): module.path for module in self.reached.local.values()}
        moved, beside = travelling(preparation, self.target, travels, self.folder)
        self.files = {**{f"{CODE}/{path}": file for path, file in beside.items()}, **self.files}
        self.files[PREPARATION] = msgspec.json.format(msgspec.json.encode(moved)) + b"\n"
        if with_snapshot and preparation.snapshot is not None and not is_s3(preparation.snapshot):
            origin = Path(preparation.snapshot)
            found = (path for path in sorted(origin.rglob("*")) if path.is_file())
            self.files |= {f"{SNAPSHOT}/{path.relative_to(origin)}": path for path in found}

    def write(self) -> Bundle:
        """Write the bundle, and return what it is. Raises Unbundleable, OSError."""
        for module in self.reached.local.values():
            self.files[f"{CODE}/{module.path}"] = module.file
        records = editable.records(module.file for module in self.reached.local.values())
        self.files |= {f"{CODE}/{path}": content for path, content in records.items()}
        if self.made and f"{CODE}/{MAIN}.py" not in self.files:
            self.files[f"{CODE}/{MAIN}.py"] = b"# The code of a notebook, or of no file: its cells lie beside this.\n"
        bundle = self._bundle({path: _written(self.staging / path, one) for path, one in sorted(self.files.items())})
        (self.staging / MANIFEST).write_bytes(bundle.encode())
        return bundle

    def _bundle(self, files: dict[str, File]) -> Bundle:
        spec = self.function.spec
        if named := with_password(spec.requirements):
            raise Unbundleable(
                f"the address of {named[0]} in requirements= has a password in it, which all who have the bundle see",
                "take it out, and put it into ~/.netrc, which pip reads",
            )
        used = libraries.distributions_of({*self.reached.others, *self.referred}) | _installed(spec.requirements)
        referred = set(libraries.distributions_of(self.referred)) & set(used)
        if PAYLOAD in files:
            used["cloudpickle"] = metadata.version("cloudpickle")
            referred.add("cloudpickle")
        return Bundle(
            name=spec.name,
            target=self.target,
            python=platform.python_version(),
            faas=metadata.version("faas"),
            requirements=spec.requirements,
            libraries={name: version for name, version in sorted(used.items()) if name != "faas"},
            referred=tuple(sorted(referred - {"faas"})),
            made=self.made,
            spec=plain(spec),
            limits=msgspec.structs.asdict(self.function.limits),
            files=files,
            notes=(*self.told, *included.notes(self.reached.local.values(), self.folder, self.files)),
        )

    def verified(self, bundle: Bundle, interpreter: verifying.CleanInterpreter) -> Bundle:
        """Return the bundle, once it was loaded in a clean interpreter.

        A local module that it lacks there, imported by a made-up name, is added. Raises Unbundleable.
        """
        failure = interpreter.load(self.staging)
        while failure is not None:
            before = len(self.reached.local)
            if failure.missing is not None:
                self.walk.add_missing(failure.missing)
            if len(self.reached.local) == before:
                what = f"{self.function.name} cannot be loaded elsewhere: {failure.message}"
                raise Unbundleable(what, failure.remedy)
            bundle = self.write()
            with verifying.CleanInterpreter() as another:
                failure = another.load(self.staging)
        return bundle


def _written(path: Path, content: Path | bytes) -> File:
    """Write one file of a bundle, readable by everybody: it runs as another user."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        shutil.copyfile(content, path)
    path.chmod(0o644)
    return File(reading.file_digest(path), path.stat().st_size)


def plain(spec: Any) -> dict[str, Any]:
    """Return a function's specification as plain values; what has none (middleware, examples) is left out."""
    found: dict[str, Any] = {}
    for name in spec.__dataclass_fields__:
        value = getattr(spec, name)
        if name not in ("middleware", "warmup"):
            found[name] = msgspec.to_builtins(dict(value) if isinstance(value, Mapping) else value)
    return found


def _installed(requirements: Iterable[str]) -> dict[str, str]:
    """Return the versions of what is required, as far as it is here."""
    names = [Requirement(text).name for text in requirements]
    versions = {name: distribution_version(name) for name in names}
    return {name: version for name, version in versions.items() if version is not None}
