"""`faas run`: a function called once, in this process."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any, TextIO

import click

from faas import codec
from faas.cli import body, environment, example
from faas.cli.body import Body
from faas.cli.failure import CALL_WAS_WRONG, WORK_FAILED, Failure, in_full
from faas.engine.gradients import set_gradients
from faas.errors import BadInput, FaasError
from faas.function import Endpoint, Function
from faas.handler import Handler
from faas.local import call_one
from faas.schema import Signature
from faas.users_errors import users_line


@click.command()
@click.argument("target")
@body.options
@click.option("--path", metavar="PATH", default="/", show_default=True, help="Call the endpoint at this path.")
def command(target: str, data: str | None, file: str | None, path: str) -> None:
    """Call the function of TARGET once, in this process, and print its answer as JSON; a stream, a line an event.

    What the function itself prints goes to standard error.
    """
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        function = one(environment.load(target), target)
        given = body.read(data, file)  # not before: standard input is there for the process that answers
        endpoint = _endpoint(function, path)
        try:
            kwargs = _kwargs(endpoint.signature, given)
        except BadInput as error:
            where = f" --path {path}" if endpoint is not function.main else ""
            then = f"faas run {target}{where} {example.of(endpoint.signature)}"
            raise Failure(in_full(error), then, CALL_WAS_WRONG) from error
        try:
            _call(function, endpoint, kwargs, answers)
        except FaasError:
            raise
        except Exception as error:
            line = users_line(error)
            what = f"{function.name} raised {type(error).__name__}: {error}{f' ({line})' if line else ''}"
            raise Failure(what, "the same command with FAAS_DEBUG=1 shows the traceback", WORK_FAILED) from error


def one(found: list[Function], target: str) -> Function:
    """Return the only function of a target.

    Raises:
        Failure: it has several.
    """
    if len(found) > 1:
        names = ", ".join(f.name for f in found)
        raise Failure(
            f"{target} defines several functions: {names}", f"name one: {target}:{found[0].name}", CALL_WAS_WRONG
        )
    return found[0]


def _endpoint(function: Function, path: str) -> Endpoint:
    if path == "/":
        return function.main
    found = {e.path: e for e in function.endpoints}
    endpoint = found.get(f"/{path.lstrip('/')}")
    if endpoint is None:
        raise Failure(
            f"{function.name} has nothing at {path!r}", f"give one of --path {', '.join(found)}", CALL_WAS_WRONG
        )
    return endpoint


def _kwargs(signature: Signature, given: Body | None) -> dict[str, Any]:
    """Turn the input into keyword arguments; no input is as good as an empty object."""
    raw = signature.raw
    if raw is not None:
        if given is None:
            raise BadInput(f"{raw.name} takes bytes, and none were given")
        return {raw.name: given.content}
    if given is not None and given.media_type == body.BYTES:
        fields = ", ".join(p.name for p in signature.parameters)
        if any(p.raw for p in signature.parameters):
            raise BadInput(f"it takes {fields}, of which a file's bytes are one: in JSON, bytes are written in base64")
        raise BadInput("the function takes JSON, not a file's bytes")
    return signature.decode(b"{}" if given is None else given.content)


def _call(function: Function, endpoint: Endpoint, kwargs: dict[str, Any], out: TextIO) -> None:
    """Call the function and print what it answers.

    What is plain runs without a loop around it, as in an instance: it may run one itself, and Ctrl-C breaks it off.
    """
    handler = Handler(function)
    handler.setup()
    handler.after_thaw()
    set_gradients(function.spec.grad)  # as an instance does: what answers there is to answer here
    try:
        answer = call_one(handler, endpoint, kwargs)
        match endpoint.signature.kind:
            case "plain":
                _print(answer, out)
            case "generator":
                for event in answer:
                    _print(event, out)
            case "async" | "async_generator":
                asyncio.run(_await(answer, out))
    finally:
        set_gradients(True)
        handler.teardown()


async def _await(answer: Any, out: TextIO) -> None:
    if isinstance(answer, AsyncIterator):
        async for event in answer:
            _print(event, out)
    else:
        _print(await answer, out)


def _print(value: Any, out: TextIO) -> None:
    """Write one answer: bytes as they are, all else as a line of JSON."""
    if isinstance(value, bytes):
        click.echo(value, file=out, nl=False)
    else:
        click.echo(codec.encode(value), file=out)
