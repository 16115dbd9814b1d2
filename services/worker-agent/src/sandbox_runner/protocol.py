"""The words between sidecar and runner: frames, kinds and bounds. Both ends use this module; neither trusts the other.

A frame is a big-endian payload length (4 bytes), a kind (1 byte) and the payload. Control payloads are JSON objects, data
payloads raw bytes. Data to the sidecar flows under a credit window: each frame costs its payload and `FRAME_COST_BYTES`, and
the runner never has more than `WINDOW_BYTES` out that the sidecar has not acknowledged (`ACK_OUTPUT`, `ACK_DATA`: a sum of
costs, 4 bytes; one window for each task's output, one for each file operation). So a slow reader never blocks the control
frames behind its data, and neither end ever holds more than a window.

To the runner (JSON fields; `?` = may be left out):

    RUN      task, kind "command" | "python", argv | shell | code, env?, cwd?, tty? {rows, cols}
    SIGNAL   task, signal             to the task's process group
    WRITE    op, path, mode?          then DATA frames and END
    READ     op, path, offset?, limit?
    LIST     op, path, limit?
    REMOVE   op, path, recursive?
    ARCHIVE  op, path, measure?       a directory as a tar archive, in DATA; with measure, only its size
    EXTRACT  op, path, entries_max    then DATA frames of a tar archive and END
    END      op, abort?               ends the DATA of a WRITE or EXTRACT; with abort, gives up any file operation
    FREEZE   op                       stops every user process; answered by DONE
    THAW     op                       lets them go on; answered by DONE
    LEASE    until_ns                 where user code runs on a lease: until then, by CLOCK_BOOTTIME
    PREPARE  (empty)                  a `python` task is about to come: fork the interpreter meanwhile
    INPUT    raw bytes that were typed into the terminal of the task that runs; without one they mean nothing
    RESIZE   task, rows, cols         its terminal has another size now
    TERMINAL (empty)                  carries the two descriptors that NEED_TERMINAL asked for; none: there is no terminal
    BYE      (empty)                  kill everything and exit

To the sidecar:

    HELLO    version, pid, python, network?   what network it has, where it knows: "loopback" | "none"
    STARTED  task, at_ns              CLOCK_REALTIME, when the user's first instruction was about to run
    STDOUT, STDERR                    raw bytes of the one task that runs
    EXIT     task, exit_code, signal, error {code, message} | null, interpreter {generation, fresh} | null, oom
             oom: the kernel has killed for memory meanwhile; only where the sandbox has a container of its own
    DATA                              raw bytes of a READ or ARCHIVE; JSON arrays of entries of a LIST
    DONE     op, and what the operation has to say
    FAILED   op, code, message
    INPUT_USED  a sum of bytes of INPUT that the terminal has taken, 4 bytes
    NEED_TERMINAL  (empty)            the task wants a terminal and the sandbox may not open one: the sidecar opens it
    LEAVING  (empty)                  its container was asked to end: the sidecar says BYE when it is ready for that

Of INPUT no more than `INPUT_WINDOW_BYTES` are ever out that INPUT_USED has not named; it begins anew with each task.
One task and one file operation at a time. EXIT without `error` always comes after STARTED.
"""

import struct
from collections.abc import Iterator

VERSION = 1

RUN = 1
SIGNAL = 2
WRITE = 3
READ = 4
LIST = 5
REMOVE = 6
DATA = 7
END = 8
FREEZE = 9
THAW = 10
BYE = 11
ACK_OUTPUT = 12
ACK_DATA = 13
PREPARE = 14
INPUT = 15
RESIZE = 16
TERMINAL = 17
ARCHIVE = 18
EXTRACT = 19
LEASE = 20

HELLO = 32
STARTED = 33
STDOUT = 34
STDERR = 35
EXIT = 36
DONE = 37
FAILED = 38
INPUT_USED = 39
NEED_TERMINAL = 40
LEAVING = 41

TO_RUNNER = frozenset(
    (
        RUN,
        SIGNAL,
        WRITE,
        READ,
        LIST,
        REMOVE,
        DATA,
        END,
        FREEZE,
        THAW,
        BYE,
        ACK_OUTPUT,
        ACK_DATA,
        PREPARE,
        INPUT,
        RESIZE,
        TERMINAL,
        ARCHIVE,
        EXTRACT,
        LEASE,
    )
)
TO_SIDECAR = frozenset(
    (HELLO, STARTED, STDOUT, STDERR, EXIT, DATA, DONE, FAILED, INPUT_USED, NEED_TERMINAL, LEAVING)
)

PAYLOAD_BYTES_MAX = 1 << 20
WINDOW_BYTES = 1 << 20
INPUT_WINDOW_BYTES = 64 << 10
CHUNK_BYTES = 64 << 10
FRAME_COST_BYTES = 256
"""What a frame costs of the window beside its payload, so that a flood of tiny frames is bounded as well."""
LIST_ENTRIES_MAX = 10_000
MESSAGE_LENGTH_MAX = 2000
"""Characters of an error's message."""

_HEADER = struct.Struct(">IB")
_COUNT = struct.Struct(">I")


class FrameError(Exception):
    """The bytes on the wire are no frame that this end accepts: the connection can't go on."""


def encode(kind: int, payload: bytes = b"") -> bytes:
    """Builds one frame.

    Args:
        kind: One of the kinds of this module.
        payload: At most `PAYLOAD_BYTES_MAX` bytes.

    Returns:
        The bytes to send.

    Raises:
        FrameError: The payload is too long.
    """
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise FrameError(f"a payload of {len(payload)} bytes is over {PAYLOAD_BYTES_MAX}")
    return _HEADER.pack(len(payload), kind) + payload


def pack_count(count: int) -> bytes:
    """Builds the payload of an acknowledgement of `count` bytes."""
    return _COUNT.pack(count)


def encode_count(kind: int, count: int) -> bytes:
    """Builds an acknowledgement of `count` bytes."""
    return encode(kind, pack_count(count))


def decode_count(payload: bytes) -> int:
    """Reads an acknowledgement.

    Args:
        payload: The payload of an ACK frame.

    Returns:
        The count of bytes, more than 0.

    Raises:
        FrameError: It's no count, or 0, or more than a window.
    """
    if len(payload) != _COUNT.size:
        raise FrameError(f"an acknowledgement of {len(payload)} bytes")
    count = int(_COUNT.unpack(payload)[0])
    if not 0 < count <= WINDOW_BYTES:
        raise FrameError(f"an acknowledgement of {count} bytes that were never sent")
    return count


def cost_bytes(payload: bytes) -> int:
    """What a data frame takes of its window."""
    return len(payload) + FRAME_COST_BYTES


class Decoder:
    """Cuts a byte stream into frames, however it was split; refuses what is too long or of a kind not expected here."""

    def __init__(self, kinds: frozenset[int], payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> None:
        """Starts at a frame's edge.

        Args:
            kinds: The kinds that this end accepts.
            payload_bytes_max: Longest payload that this end accepts.
        """
        self._kinds = kinds
        self._payload_bytes_max = payload_bytes_max
        self._buffer = bytearray()

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that has not come to its end yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Takes what was read, gives back what is complete, also what comes before something that is no frame.

        Args:
            data: The next bytes of the stream.

        Yields:
            Complete frames as (kind, payload), in order.

        Raises:
            FrameError: A length or a kind is out of bounds; the decoder is of no use afterwards.
        """
        buffer = self._buffer
        buffer += data
        at = 0
        try:
            while len(buffer) - at >= _HEADER.size:
                length, kind = _HEADER.unpack_from(buffer, at)
                # Refused on the header alone: nobody makes us wait for, or hold, a payload that we would not accept.
                if kind not in self._kinds:
                    raise FrameError(f"a frame of kind {kind} has no place here")
                if length > self._payload_bytes_max:
                    raise FrameError(f"a frame of {length} bytes is over {self._payload_bytes_max}")
                end = at + _HEADER.size + length
                if len(buffer) < end:
                    break
                payload = bytes(buffer[at + _HEADER.size : end])
                at = end
                yield kind, payload
        finally:
            del buffer[:at]
