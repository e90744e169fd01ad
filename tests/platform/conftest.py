"""Tests that are coroutine functions run on uvloop, as the platform does."""

import asyncio
import inspect
import warnings
from typing import Any

import pytest
import uvloop


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    try:
        runner.run(asyncio.wait_for(pyfuncitem.obj(**arguments), 30))
    except BaseException:
        with warnings.catch_warnings():  # what a failed test leaves open; uvloop hangs when its warning is an error
            warnings.simplefilter("ignore")
            runner.close()
        raise
    runner.close()
    return True
