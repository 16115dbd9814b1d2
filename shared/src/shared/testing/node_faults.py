"""Faults of whole Kubernetes nodes, done by a program that knows how: `COMMAND poweroff NODE` and the like.

Which program that is depends on where the cluster runs; `$AGENT_SANDBOX_FAULTS` names it (words as in a shell). It must
know the verbs below, and return when the thing is done.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple

FAULTS_VARIABLE = "AGENT_SANDBOX_FAULTS"
DONE_S = 60.0
"""Longest run of one fault."""

Fault = Literal["poweroff", "kill", "hang", "cut"]
MEND: Mapping[Fault, str] = {
    "poweroff": "start",
    "kill": "start",
    "hang": "resume",
    "cut": "heal",
}
"""What takes a fault back."""


class FaultFailed(Exception):
    """The program could not do it."""


class Done(NamedTuple):
    """A fault that was done, by this process's clocks: it came between the two moments."""

    began_s: float
    """When the program was called; seconds since 1970. Times are counted from here: too long rather than too short."""
    ended_s: float


class NodeFaults:
    """Does faults, and knows which are open."""

    def __init__(self, command: str) -> None:
        """Use a program.

        Args:
            command: its words, as in a shell.
        """
        self._command = shlex.split(command)
        self._open: list[tuple[Fault, str]] = []

    @staticmethod
    def from_environment(environ: Mapping[str, str] = os.environ) -> NodeFaults | None:
        """Return those of the environment, or None where it names none."""
        command = environ.get(FAULTS_VARIABLE, "")
        return NodeFaults(command) if command else None

    def do(self, fault: Fault, node: str) -> Done:
        """Do a fault to a node.

        Raises:
            FaultFailed: the program failed, or took too long.
        """
        self._open.append((fault, node))
        return self._call(fault, node)

    def mend(self, fault: Fault, node: str) -> Done:
        """Take a fault back.

        Raises:
            FaultFailed: the program failed, or took too long.
        """
        done = self._call(MEND[fault], node)
        with suppress(ValueError):
            self._open.remove((fault, node))
        return done

    def mend_all(self) -> None:
        """Take everything back that is still open, the last first.

        Raises:
            FaultFailed: one of them could not be; the others were.
        """
        failed = []
        for fault, node in reversed(self._open.copy()):
            try:
                self.mend(fault, node)
            except FaultFailed as exc:
                failed.append(str(exc))
        if failed:
            raise FaultFailed("; ".join(failed))

    @contextmanager
    def mended(self) -> Iterator[NodeFaults]:
        """Leave no fault open behind the block."""
        try:
            yield self
        finally:
            self.mend_all()

    def _call(self, verb: str, node: str) -> Done:
        began_s = time.time()
        try:
            done = subprocess.run(
                [*self._command, verb, node],
                capture_output=True,
                text=True,
                timeout=DONE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise FaultFailed(f"{verb} {node}: {exc}") from exc
        if done.returncode:
            raise FaultFailed(f"{verb} {node}: {(done.stderr or done.stdout).strip()[-400:]}")
        return Done(began_s, time.time())
