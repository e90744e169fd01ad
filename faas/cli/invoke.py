"""`faas invoke`: a function called where it is served."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Final

import click
import httpx

from faas import address, calling, names, settings
from faas.address import Address
from faas.calling import Request
from faas.cli import body, header, progress, where
from faas.cli.failure import CALL_WAS_WRONG, Failure
from faas.cli.progress import Step
from faas.cli.where import Where
from faas.errors import PlatformError
from faas.settings import Settings

_PATIENCE_S: Final = 1.0
"""A call that takes longer is worth a word: the function is likely coming up."""


@click.command()
@click.argument("name")
@click.argument("words", nargs=-1, metavar="")
@where.options
@click.option(
    "--address", "ingress", metavar="URL", help="The cluster's ingress, where names are in no DNS; FAAS_INGRESS."
)
@click.option("--tag", help="On a cluster: call the revision with this tag.")
@body.options
@click.option("--path", metavar="PATH", default="/", show_default=True, help="Call the endpoint at this path.")
@click.option("--stream", is_flag=True, help="Print each event of a stream as it comes, a line each.")
@header.option
@click.option("--headers", "-i", is_flag=True, help="Write the answer's status and headers too, to standard error.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for a platform that is coming up.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the call may take, a cold start included.",
)
def command(
    name: str,
    words: tuple[str, ...],
    where: Where,
    ingress: str | None,
    tag: str | None,
    data: str | None,
    file: str | None,
    **options: Any,
) -> None:
    """Call the function NAME and print its answer.

    It is called on the platform that runs here, or at FAAS_URL where that is set, or else on the cluster.
    """
    if words:
        what = f"{' '.join(words)!r} is no option; input goes by --data, as JSON"
        raise Failure(what, f"faas invoke {name} -d {body.quoted(' '.join(words))}", CALL_WAS_WRONG)
    given = body.read(data, file) or body.Body(b"", body.JSON)
    known = None
    if ingress is not None or tag is not None or where.is_cluster:
        from faas.cli.cluster import calls  # the Kubernetes client is for this alone

        known = calls.address(name, where, ingress, tag)
    asyncio.run(_invoke(names.label(name), given, known, **options))


async def _invoke(
    name: str,
    given: body.Body,
    known: Address | None,
    *,
    path: str,
    stream: bool,
    sent: tuple[str, ...],
    headers: bool,
    wait_s: float,
    timeout_s: float,
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        with progress.steps() as step:
            request = Request(
                name=name,
                address=known or await _found(name, wait_s, step),
                body=given.content,
                timeout_s=timeout_s,
                path=path,
                content_type=given.media_type,
                accept=calling.EVENTS if stream else calling.JSON,
                headers=header.read(sent),
            )
            try:
                async with asyncio.timeout(timeout_s):
                    response = await _with_a_word(stack.enter_async_context(calling.call(request)), name, step)
                    if not stream:
                        await response.aread()
            except TimeoutError:
                raise Failure(f"{name} gave no answer within {timeout_s:g} s", f"faas logs {name}") from None
        if headers:
            _write_headers(response)
        if stream:
            async for event in calling.events(name, response):
                click.echo(event)
        else:
            click.echo(response.content, nl=calling.media_type(response) != calling.BYTES)


async def _found(name: str, wait_s: float, step: Step) -> Address:
    """Return where the function is, waiting for this machine's platform to come up where nothing else is known.

    Raises:
        PlatformError: there was none in time.
    """
    found = settings.read()
    with contextlib.suppress(PlatformError):
        return address.find(name, found)
    step(f"waiting up to {wait_s:g} s for a platform to come up here")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            await _record(found)
    return address.find(name, found)


async def _record(found: Settings) -> None:
    """Wait until a platform has recorded itself."""
    from faas.cli.watch import watching  # slow to import, and seldom needed

    found.run.mkdir(parents=True, exist_ok=True)
    async with watching(found.run) as watch:
        while address.read_record(found) is None:
            await watch.changed
            watch.take()


async def _with_a_word(work: Coroutine[Any, Any, httpx.Response], name: str, step: Step) -> httpx.Response:
    """Wait for an answer; say so when it takes long."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task,), timeout=_PATIENCE_S)
        if not task.done():
            step(f"waiting for {name} to answer")
        return await task
    finally:
        task.cancel()


def _write_headers(response: httpx.Response) -> None:
    click.echo(f"HTTP {response.status_code} {response.reason_phrase}", err=True)
    for key, value in response.headers.items():
        click.echo(f"{key}: {value}", err=True)
    click.echo(err=True)
