"""A real `faas` process, watched by the lines that it writes."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Running:
    """A process, and the lines of its standard error so far."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Read on until a line matches, and return the match; lines before it are done with."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(pattern, line)
            if found:
                return found
        raise AssertionError(f"ended with {self.process.wait()} before {pattern!r}:\n{''.join(self.lines)}")

    def end(self, signum: int) -> int:
        """Send a signal, read the rest and return the exit code."""
        self.process.send_signal(signum)
        assert self.process.stderr is not None
        self.lines += self.process.stderr
        return self.process.wait(60)


@contextlib.contextmanager
def running(*args: str, **env: str) -> Iterator[Running]:
    """Run `faas` with `args`; it is killed if the block leaves it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "faas.cli.main", *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env},
    )
    try:
        yield Running(process)
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
