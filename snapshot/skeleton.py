"""The object graph without its tensors: how it is pickled, and what was taken out on the way.

Tensors and arrays leave by a numbered reference. Everything else pickles as usual, functions and classes that cannot
be imported by value. Imported for freezing alone: cloudpickle takes longer to import than many a thaw.
"""

import contextlib
import importlib
import io
import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import cloudpickle

from snapshot import arrays, generators, modules, onnx_session, paths, process_bound, tensors, tokenizer
from snapshot.errors import Unfreezable
from snapshot.export.module import itself
from snapshot.plan import Source
from snapshot.reducers import KeptFiles, Reducer, find_reducer, kept_folder, set_attributes

# Memory that an object offers out of band (as data frames do) stays in the pickle below this size.
_MIN_BUFFER_BYTES = 1024
_NOTHING: Mapping[int, object] = {}
_BUILT_IN: dict[str, Reducer] = {
    **process_bound.REDUCERS,
    "numpy.random.bit_generator.BitGenerator": generators.reduce_bit_generator,
    "numpy.random.mtrand.RandomState": generators.reduce_random_state,
    "random.Random": generators.reduce_generator,
    "tokenizers.Tokenizer": tokenizer.reduce_tokenizer,
    "torch._C.Generator": generators.reduce_generator,
    "onnxruntime.capi.onnxruntime_inference_collection.InferenceSession": onnx_session.reduce_session,
    "onnxruntime.capi.onnxruntime_pybind11_state.NodeArg": onnx_session.reduce_node,
    "onnxruntime.capi.onnxruntime_pybind11_state.SessionOptions": onnx_session.reduce_options,
}


@dataclass(frozen=True, eq=False)
class _Bare:
    """Stands for a tensor or array whose type or attributes are pickled around it."""

    content: Any
    describe: Callable[[Any], Source]


class SkeletonPickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Pickles a graph, and afterwards holds what it took out and what it met.

    contents, sources: the tensors, arrays and buffers by reference number, and the memory of each
    kept: what reducers asked to keep as files
    modules: names of the modules that the graph's classes and functions come from

    `replacing` has, by id, objects that others are written in the place of.
    """

    def __init__(self, file: io.BytesIO, replacing: Mapping[int, object] = _NOTHING) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL, buffer_callback=self._take_buffer)
        self.contents: list[Any] = []
        self.sources: list[Source] = []
        self.kept: list[KeptFiles] = []
        self.modules: set[str] = set()
        self._numbers: dict[int, int] = {}
        self._replacing = replacing
        self._take_out: dict[type, Callable[[Any], int | str | None]] = {
            _Bare: lambda bare: self._refer(bare.content, bare.describe),
            KeptFiles: self._keep,
        }
        if numpy := sys.modules.get("numpy"):
            self._take_out[numpy.ndarray] = self._take_out[numpy.memmap] = self._take_array
        if torch := sys.modules.get("torch"):
            self._take_out[torch.Tensor] = self._take_out[torch.nn.Parameter] = self._take_tensor
            self._take_out[torch.UntypedStorage] = lambda storage: self._refer(storage, tensors.describe_storage)

    def persistent_id(self, one: Any) -> int | str | None:
        """Called by pickle for every object: its reference number when it is taken out."""
        if id(one) in self._replacing:
            return None
        kind = type(one)
        self._meet(kind.__module__)
        if kind is FunctionType or kind is BuiltinFunctionType or isinstance(one, type):
            self._meet(one.__module__)
        elif kind is ModuleType:
            self._meet(one.__name__)
        take_out = self._take_out.get(kind)
        return take_out(one) if take_out else None

    def reducer_override(self, one: Any) -> Any:
        """Called by pickle for what is left: how the object is taken apart."""
        if id(one) in self._replacing:
            return itself, (self._replacing[id(one)],)
        kind = type(one)
        if kind in self._take_out:  # an array or tensor that a reference alone does not bring back
            if _is_array(one) and not one.dtype.hasobject:
                return arrays.with_dtype, (_Bare(arrays.as_void(one), arrays.describe), one.dtype)
            if not _is_array(one) and tensors.is_plain(one):
                bare = _Bare(one, tensors.describe)
                return tensors.same, (bare,), one.__dict__, None, None, set_attributes
        elif tensors.is_typed_storage(one):
            return tensors.typed_storage, (one._untyped_storage, one.dtype)
        elif reduce := find_reducer(kind, _BUILT_IN):
            return reduce(one)
        elif arrays.is_bare_subclass(kind):
            return arrays.as_subclass, (arrays.base_of(one), kind), one.__dict__, None, None, set_attributes
        elif reduced := modules.reduce_module(one):
            return reduced
        return super().reducer_override(one)

    def _meet(self, module: str) -> None:
        if not isinstance(module, str) or module in self.modules:
            return
        self.modules.add(module)
        if module not in sys.modules:
            # What it defines goes by reference only when it is loaded, and a lazy package may not have loaded it yet.
            with contextlib.suppress(Exception):
                importlib.import_module(module)

    def _take_array(self, array: Any) -> int | None:
        return self._refer(array, arrays.describe) if arrays.is_plain(array) else None

    def _take_tensor(self, tensor: Any) -> int | None:
        return self._refer(tensor, tensors.describe) if not tensor.__dict__ and tensors.is_plain(tensor) else None

    def _refer(self, content: Any, describe: Callable[[Any], Source]) -> int:
        number = self._numbers.get(id(content))
        if number is None:
            number = self._numbers[id(content)] = len(self.contents)
            # Kept, so that neither the address nor the id of what a reduction made can be used again before we write.
            self.contents.append(content)
            self.sources.append(describe(content))
        return number

    def _keep(self, kept: KeptFiles) -> str:
        paths_to_copy = (file for file in kept.files.values() if not isinstance(file, bytes))
        if missing := [str(file) for file in paths_to_copy if not file.is_file()]:
            raise FileNotFoundError(f"a file to keep is gone: {', '.join(missing)}")
        if kept not in self.kept:
            self.kept.append(kept)
        return kept_folder(self.kept.index(kept))

    def _take_buffer(self, buffer: pickle.PickleBuffer) -> bool:
        memory = buffer.raw()
        if len(memory) < _MIN_BUFFER_BYTES:
            return True
        self._refer(memory, arrays.describe_buffer)
        return False


def _is_array(content: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(content, numpy.ndarray)


def pickle_graph(state: object, replacing: Mapping[int, object] = _NOTHING) -> tuple[bytes, SkeletonPickler]:
    """The pickle of `state` without its tensors, and the pickler that took them out. Raises Unfreezable."""
    file = io.BytesIO()
    pickler = SkeletonPickler(file, replacing)
    try:
        pickler.dump(state)
    except Exception as error:
        raise _unfreezable(state, error) from error
    return file.getvalue(), pickler


def _unfreezable(state: object, error: Exception) -> Unfreezable:
    if isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError):
        return Unfreezable(paths.ROOT, "its objects are nested too deeply to be pickled (Python's recursion limit)")
    path, reason = paths.Blame(_attempt, _take_apart).find(state) or ((), error)
    return Unfreezable(paths.as_code(path), str(reason) or type(reason).__name__, path)


def _take_apart(one: object) -> object:
    if reduce := find_reducer(type(one), _BUILT_IN):
        return reduce(one)
    return modules.reduce_module(one) or one.__reduce_ex__(pickle.HIGHEST_PROTOCOL)


def _attempt(part: object) -> Exception | None:
    try:
        SkeletonPickler(io.BytesIO()).dump(part)
    except Exception as error:
        return error
    return None
