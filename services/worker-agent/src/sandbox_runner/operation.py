"""The one file operation that may be under way: its steps, its credit, its end."""

import errno
import os
from collections.abc import Callable
from typing import Any

from sandbox_runner import files, pack, protocol, unpack
from sandbox_runner.channel import Channel
from sandbox_runner.paths import FileError, Workspace

_KINDS: dict[int, Callable[[Workspace, files.Reply], files.Steps]] = {
    protocol.WRITE: files.write,
    protocol.READ: files.read,
    protocol.LIST: files.list_directory,
    protocol.REMOVE: files.remove,
    protocol.ARCHIVE: pack.archive,
    protocol.EXTRACT: unpack.extract,
}
_STEPS_A_ROUND = 8
_FRAME_COST_BYTES_MAX = protocol.WINDOW_BYTES // 2
"""More than any frame of an operation costs: a full frame of the longest names takes 0.3 MiB."""


class Operation:
    """Idle, advancing by itself (READ, LIST, REMOVE, ARCHIVE), fed by DATA (WRITE, EXTRACT), or dropping the DATA of one that
    failed."""

    def __init__(self, channel: Channel, workspace: Workspace) -> None:
        """Idle."""
        self._channel = channel
        self._workspace = workspace
        self._op = 0
        self._steps: files.Steps | None = None
        self._fed = False
        self._credit_bytes = 0

    def begin(self, kind: int, request: dict[str, Any]) -> None:
        """Starts an operation.

        Args:
            kind: WRITE, READ, LIST, REMOVE, ARCHIVE or EXTRACT.
            request: The frame's fields.

        Raises:
            protocol.FrameError: Another one is under way.
        """
        if self._steps is not None or self._fed:
            raise protocol.FrameError("one file operation at a time")
        self._op = int(request["op"])
        self._fed = kind in (protocol.WRITE, protocol.EXTRACT)
        self._credit_bytes = protocol.WINDOW_BYTES
        self._steps = _KINDS[kind](self._workspace, request)
        if self._fed:
            self._advance(None)

    def data(self, payload: bytes) -> None:
        """Takes a piece of the file that is being written.

        Raises:
            protocol.FrameError: No file is.
        """
        if not self._fed:
            raise protocol.FrameError("DATA for no file")
        if self._steps is not None:
            self._advance(payload)

    def end(self, request: dict[str, Any]) -> None:
        """Ends the data, or gives the operation up; an END that comes after the operation's own end means nothing."""
        if int(request["op"]) != self._op:
            return
        if self._steps is not None and request.get("abort"):
            steps, self._steps = self._steps, None
            steps.close()
            self._fail("aborted", "given up by the client")
        elif self._steps is not None and self._fed:
            self._advance(None)
        self._fed = False

    def acknowledge(self, count: int) -> None:
        """Takes note that the sidecar has used `count` bytes.

        Raises:
            protocol.FrameError: More than were sent.
        """
        if self._steps is None:
            return
        self._credit_bytes += count
        if self._credit_bytes > protocol.WINDOW_BYTES:
            raise protocol.FrameError("more data was acknowledged than sent")

    def ready(self) -> bool:
        """Whether `step` has something to do now."""
        return (
            self._steps is not None
            and not self._fed
            and self._credit_bytes >= _FRAME_COST_BYTES_MAX
        )

    def step(self) -> None:
        """Goes on for a moment."""
        for _ in range(_STEPS_A_ROUND):
            if not self.ready():
                return
            self._advance(None)

    def _advance(self, data: bytes | None) -> None:
        assert self._steps is not None
        try:
            item = self._steps.send(data)
        except StopIteration as stop:
            self._steps = None
            self._channel.send_json(protocol.DONE, {"op": self._op, **stop.value})
        except FileError as error:
            self._steps = None
            self._fail(error.code, error.message)
        except OSError as error:
            self._steps = None
            self._fail("io_error", os.strerror(error.errno or errno.EIO))
        except (KeyError, TypeError, ValueError) as error:
            self._steps = None
            self._fail("invalid_request", repr(error))
        else:
            if item is not None:
                self._credit_bytes -= protocol.cost_bytes(item)
                assert self._credit_bytes >= 0
                self._channel.send(protocol.DATA, item)

    def _fail(self, code: str, message: str) -> None:
        self._channel.send_json(
            protocol.FAILED,
            {"op": self._op, "code": code, "message": message[: protocol.MESSAGE_LENGTH_MAX]},
        )
