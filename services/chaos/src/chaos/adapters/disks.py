"""Small disks: mounted where something of the cluster lies, filled to the last byte, or cut off from power. Root only."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from pathlib import Path

COMMAND_S = 60.0
MIB = 1 << 20
_SHUTDOWN = 0x8004587D
"""`_IOR('X', 125, __u32)`: the ioctl that takes a file system down at once; ext4 and xfs know it."""
_WITHOUT_LOG = 2
"""Not even the journal is flushed: what a power cut leaves."""


class NoDisk(Exception):
    """No such disk can be had here; says why."""


def mount_small(place: Path, size_mib: int, mode: int) -> None:
    """Mount a disk in memory on an empty folder.

    Raises:
        NoDisk: nobody may mount here.
    """
    options = f"size={size_mib}m,mode={mode:o}"
    _run("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place))


def unmount(place: Path) -> None:
    """Take a disk away, whoever still uses it; nothing where none is mounted."""
    if place.is_mount():
        _run("umount", "--lazy", str(place))


def fill(place: Path) -> Path:
    """Use a disk up to its last byte; return the file to remove."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:
        size = MIB
        while size:
            try:
                file.write(b"\0" * size)
            except OSError:
                size //= 2
    return ballast


def takes_a_byte(place: Path) -> bool:
    """Return whether a new file with one byte can be written."""
    probe = place / "probe"
    try:
        probe.write_bytes(b"?")
    except OSError:
        return False
    else:
        return True
    finally:
        probe.unlink(missing_ok=True)


class PowerDisk:
    """A disk of its own whose power can fail: what was not synced is gone then, as the file system's journal has it.

    It is a file system in a file. Folders of it are shown at other places.
    """

    def __init__(self, image: Path, place: Path, size_mib: int) -> None:
        """Describe it: where its bytes lie, and where it is mounted."""
        self._image, self.place, self._size_mib = image, place, size_mib
        self._shown: dict[Path, str] = {}

    def make(self) -> None:
        """Make and mount it.

        Raises:
            NoDisk: nobody may do that here.
        """
        with self._image.open("wb") as file:
            file.truncate(self._size_mib * MIB)
        _run("mkfs.ext4", "-q", "-F", str(self._image))
        self.place.mkdir(exist_ok=True)
        self._mount()

    def show(self, name: str, at: Path) -> None:
        """Make a folder of it, empty, and let it be seen at a place."""
        (self.place / name).mkdir(mode=0o700)
        at.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._shown[at] = name
        self._bind(at)

    def cut(self) -> None:
        """Let its power fail: nothing more is written, and what was not synced never was."""
        descriptor = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _WITHOUT_LOG))
        finally:
            os.close(descriptor)

    def restore(self) -> None:
        """Give it power again; its users must be gone.

        Raises:
            NoDisk: it can't be mounted any more.
        """
        self._take_down(())
        self._mount()
        for at in self._shown:
            self._bind(at)

    def remove(self) -> None:
        """Take it away, whoever still uses it."""
        self._take_down(("--lazy",))
        self._image.unlink(missing_ok=True)

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.place))

    def _bind(self, at: Path) -> None:
        _run("mount", "--bind", str(self.place / self._shown[at]), str(at))

    def _take_down(self, options: tuple[str, ...]) -> None:
        for mounted in (*self._shown, self.place):
            if mounted.is_mount():
                _run("umount", *options, str(mounted))


def _run(*words: str) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise NoDisk(f"{words[0]}: {exc}") from exc
    if done.returncode != 0:
        raise NoDisk(f"{words[0]}: {done.stderr.strip() or done.returncode}")
