"""What is typed into a terminal: who may have typed what already, and how fast a flood of output is shown."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

import msgspec

from shared import headers, limits
from shared.errors import InvalidMessage

WRITER_LENGTH_MAX = 64
NUMBER_LENGTH_MAX = 18


class Keys(msgspec.Struct, frozen=True):
    """A message to a terminal."""

    writer: str
    """Who types; empty: nobody, it only asks or changes something."""
    offset: int = 0
    """Bytes that this writer has typed before."""
    data: bytes = b""
    size: tuple[int, int] | None = None
    """Its new rows and columns."""
    hang_up: bool = False


def read_keys(fields: Mapping[str, str], data: bytes) -> Keys:
    """Read a message to a terminal.

    Raises:
        InvalidMessage: names the header and its limit.
    """
    writer = fields.get(headers.WRITER, "")
    if len(writer) > WRITER_LENGTH_MAX or (data and not writer):
        raise InvalidMessage(f"header {headers.WRITER}: 1 to {WRITER_LENGTH_MAX} characters")
    if len(data) > limits.TERMINAL_INPUT_BYTES_MAX:
        raise InvalidMessage(f"body: {len(data)} bytes, at most {limits.TERMINAL_INPUT_BYTES_MAX}")
    size: tuple[int, int] | None = None
    if headers.SIZE in fields:
        rows, _, cols = fields[headers.SIZE].partition(" ")
        size = _number(rows, headers.SIZE), _number(cols, headers.SIZE)
        if not all(1 <= side <= limits.TERMINAL_SIDE_MAX for side in size):
            raise InvalidMessage(
                f"header {headers.SIZE}: 1 to {limits.TERMINAL_SIDE_MAX} rows and columns"
            )
    offset = _number(fields.get(headers.OFFSET, "0"), headers.OFFSET)
    return Keys(writer, offset, data, size, headers.HANG_UP in fields)


def _number(text: str, header: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= NUMBER_LENGTH_MAX):
        raise InvalidMessage(f"header {header}: a number expected, got {text[:20]!r}")
    return int(text)


class Typed(msgspec.Struct, frozen=True):
    """What becomes of some input."""

    take: bytes
    """To be typed now."""
    next: int
    """Bytes of this writer that the terminal has then."""
    forgotten: bool = False


class InputBook:
    """How much each writer has typed: bytes are typed once and in order, whatever comes again, late or out of turn."""

    def __init__(self, writers_max: int = limits.TERMINAL_WRITERS_MAX) -> None:
        """Know nobody yet."""
        self._writers_max = writers_max
        self._next: OrderedDict[str, int] = OrderedDict()

    def take(self, keys: Keys, room_bytes: int) -> Typed:
        """Decide on a message.

        Args:
            keys: what came.
            room_bytes: what the terminal takes now.
        """
        if not keys.writer:
            return Typed(b"", 0)
        if keys.writer not in self._next and keys.offset:
            return Typed(b"", 0, forgotten=True)
        expected = self._next.get(keys.writer, 0)
        behind = expected - keys.offset
        fresh = keys.data[behind:][: max(0, room_bytes)] if behind >= 0 else b""
        self._next[keys.writer] = expected + len(fresh)
        self._next.move_to_end(keys.writer)
        if len(self._next) > self._writers_max:
            self._next.popitem(last=False)
        return Typed(fresh, expected + len(fresh))


class Quiet:
    """How long a terminal was left alone: nobody said anything to it, and it showed nothing."""

    def __init__(self, idle_s: float, now_s: float) -> None:
        """Begin to count."""
        self._idle_s = idle_s
        self._since_s = now_s

    def broken(self, now_s: float) -> None:
        """Note that something was said or shown."""
        self._since_s = now_s

    def left_s(self, now_s: float) -> float:
        """Return the seconds until it was left alone for long enough; 0: it was."""
        return max(0.0, self._since_s + self._idle_s - now_s)


class Pace:
    """Lets a terminal's output through: at once up to what any task may show, then so much a second."""

    def __init__(
        self,
        now_s: float,
        *,
        burst_bytes: int = limits.OUTPUT_BYTES_MAX,
        bytes_per_s: int = limits.TERMINAL_OUTPUT_BYTES_PER_S_MAX,
    ) -> None:
        """Start with all of the burst."""
        self._burst_bytes = burst_bytes
        self._bytes_per_s = bytes_per_s
        self._left_bytes = float(burst_bytes)
        self._at_s = now_s

    def wait_s(self, size_bytes: int, now_s: float) -> float:
        """Take `size_bytes` from it; return the seconds to wait before they are shown."""
        refill = (now_s - self._at_s) * self._bytes_per_s
        self._at_s = now_s
        self._left_bytes = min(float(self._burst_bytes), self._left_bytes + refill) - size_bytes
        return max(0.0, -self._left_bytes / self._bytes_per_s)
