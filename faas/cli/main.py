"""`faas`: the group of commands. Each command's module is imported when it is called, so that help is quick."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from faas import names
from faas.cli import failure

COMMANDS: Final = {
    "init": "Write a small application to start from.",
    "run": "Call a function once, in this process.",
    "serve": "Serve one function on a port.",
    "up": "Start the one-box platform.",
    "down": "Stop the one-box platform.",
    "deploy": "Deploy functions to a cluster, or to the running platform.",
    "list": "List the functions of the platform, or of the cluster.",
    "describe": "Show all that is known of a function.",
    "ps": "List the platform's instances.",
    "scale": "Set how many instances a function has now.",
    "traffic": "Share a function's calls among its revisions.",
    "promote": "Give all calls to one revision, or to one version.",
    "rollback": "Go back to the version or the revision before.",
    "versions": "Show and set which versions of its state a function is served with.",
    "delete": "Take a function from the platform, or from the cluster.",
    "invoke": "Call a served function.",
    "logs": "Show what a function logged.",
    "pool": "Make, list and delete pools: pods on a cluster that serve many functions each.",
    "secret": "Make, list and delete the secrets that functions on a cluster use.",
    "doctor": "Look for what is wrong, or will be, with the cluster.",
    "env": "List and prune the environments of functions with requirements of their own.",
    "bundle": "Pack a function with all that it needs, to run anywhere.",
    "snapshot": "Create, inspect and verify snapshots.",
    "node-cache": "Keep pinned snapshots on the nodes of a cluster.",
    "image": "Make, copy and inspect images of containers.",
    "simulate": "Replay a trace against a function's scaling.",
    "bench": "Put load on a URL and measure.",
}


class Commands(click.Group):
    """The commands of the table above, and the one place where errors become lines and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order that a user meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = importlib.import_module(f"faas.cli.{cmd_name.replace('-', '_')}").command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or name the nearest."""
        if args[0] not in COMMANDS:
            ctx.fail(f"there is no command {args[0]!r}{names.suggestion(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and end the process: 0 well, 1 the work failed, 2 the call was wrong."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except BrokenPipeError:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (the reader has gone; nothing more can be written)
            sys.exit(failure.WORK_FAILED)
        except Exception as error:
            sys.exit(failure.report(error))
        sys.exit(code if isinstance(code, int) else 0)


@click.group("faas", cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="faas", prog_name="faas")
def main() -> None:
    """Serve inference functions: batched, scaled from zero, awake in tens of milliseconds.

    A TARGET is a file (app.py), one function of it (app.py:Embed) or a module (pkg.app:Embed).
    """
    if sys.platform == "win32":
        raise failure.Failure("Windows is not supported", "run it inside WSL, the Windows Subsystem for Linux")


if __name__ == "__main__":
    main()
