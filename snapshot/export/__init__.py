"""Models in a form that needs neither torch nor the library that they were written with.

While a handler's examples run, `recording` notes how its modules are called; `onnx` and `aoti` turn each such module
into files and check them against what was noted; `module` is what stands in its place wherever the handler is thawed.
Torch is imported where a module is exported, and nowhere else: `module` and all it needs do without.
"""
