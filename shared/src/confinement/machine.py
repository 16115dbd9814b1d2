"""What kernel a process really runs on, asked from inside. Standard library only."""

from __future__ import annotations

import ctypes

_READ_ALL = 3
_LOG_BYTES = 1 << 16
_GVISOR = b"gVisor"


def kernel_log() -> bytes:
    """Return what the kernel's log shows to this process; empty where it shows nothing."""
    buffer = ctypes.create_string_buffer(_LOG_BYTES)
    read = ctypes.CDLL(None).klogctl(_READ_ALL, buffer, _LOG_BYTES)
    return buffer.raw[:read] if read > 0 else b""


def is_gvisor() -> bool:
    """Whether this is gVisor's kernel: it says so in its log, which a hardened Linux does not show at all."""
    return _GVISOR in kernel_log()
