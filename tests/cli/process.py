"""A real `faas` process, watched by the lines that it writes."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO


@dataclass
class Running:
    """A process, what it writes, and the lines of that so far."""

    process: subprocess.Popen[str]
    output: IO[str]
    lines: list[str] = field(default_factory=list)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Read on until a line matches, and return the match; lines before it are done with."""
        for line in self.output:
            self.lines.append(line)
            found = re.search(pattern, line)
            if found:
                return found
        raise AssertionError(f"ended with {self.process.wait()} before {pattern!r}:\n{''.join(self.lines)}")

    def end(self, signum: int) -> int:
        """Send a signal, read the rest and return the exit code."""
        self.process.send_signal(signum)
        self.lines += self.output
        return self.process.wait(60)


@contextlib.contextmanager
def running(*args: str, merged: bool = False) -> Iterator[Running]:
    """Run `faas` with `args`; it is killed if the block leaves it. `merged` lets its lines hold standard output too."""
    process = subprocess.Popen(
        [sys.executable, "-m", "faas.cli.main", *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if merged else subprocess.DEVNULL,
        stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    output = process.stdout if merged else process.stderr
    assert output is not None
    with output:
        try:
            yield Running(process, output)
        finally:
            process.kill()
            process.wait()
