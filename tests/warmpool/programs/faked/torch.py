"""Torch as far as fork safety goes: something that says whether CUDA was initialised, or poisons a fork silently."""

import os


class cuda:
    _pid = os.getpid()
    _initialized = False
    _counted = False

    @classmethod
    def is_initialized(cls) -> bool:
        return cls._initialized

    @classmethod
    def init(cls) -> None:
        cls._initialized = True

    @classmethod
    def device_count(cls) -> int:
        cls._counted = True
        return 1

    @classmethod
    def _is_in_bad_fork(cls) -> bool:
        return cls._counted and os.getpid() != cls._pid
