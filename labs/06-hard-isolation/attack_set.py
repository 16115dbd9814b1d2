"""The 23 attacks. Each is a program for untrusted code; what it prints says whether it got through.

Most are those of this repository's tests (`shared.testing.attacks`). None of them harms the machine: where one must be tried
without any isolation it is run by an ordinary user, takes at most 300 processes and a GiB, and signals only what is named.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from shared.testing import attacks

SECRET = b"secret of the host"
FORKS = 300
MEMORY_MIB = 800


class Target(NamedTuple):
    """What there is to get; each side lays it out."""

    neighbour_pid: int
    sidecar_pid: int
    neighbours_file: str
    tcp_port: int
    unix_path: str
    abstract: str


class Attack(NamedTuple):
    """One attack."""

    name: str
    program: str
    lines: tuple[str, ...] = ("",)
    """Beginnings of what it tells that count; a program may try more than one thing."""
    is_bound: bool = False
    """It takes something: what holds it is a limit."""

    def judged(self, told: str) -> str:
        """Return what became of it, in a word, by what it printed.

        One that takes memory may have been killed for it, and then tells nothing; of any other that is no proof.
        """
        lines = [line for line in told.splitlines() if line.startswith("{")]
        if not lines:
            return "bounded" if self.is_bound else "no word"
        if any(line.startswith(self.lines) for line in json.loads(lines[-1])["got"]):
            return "NOT contained"
        return "bounded" if self.is_bound else "contained"


def signal_named(*pids: int) -> str:
    """Ask whether a signal could be sent, and send none."""
    return (
        attacks.HEAD
        + f"""
for pid in others({attacks.starts_of(pids)!r}):
    attempt(f"kill {{pid}}", os.kill, pid, 0)
tell()
"""
    )


def open_for_writing(*paths: str) -> str:
    """Open what would change the machine; nothing is written."""
    return (
        attacks.HEAD
        + f"""
for path in {list(paths)!r}:
    attempt(path, lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)))
tell()
"""
    )


SETUID = (
    attacks.HEAD
    + """
import stat
with open("/proc/self/status") as file:
    shut = any(line.split() == ["NoNewPrivs:", "1"] for line in file)
for name in ("su", "passwd", "mount", "chsh", "sudo"):
    try: mode = os.stat("/usr/bin/" + name).st_mode
    except OSError: continue
    if mode & stat.S_ISUID and not shut: got.append("would run as root: " + name)
tell()
"""
)
FORK = (
    attacks.HEAD
    + f"""
made = []
for _ in range({FORKS}):
    try: pid = os.fork()
    except OSError as exc:
        held.append(errno.errorcode[exc.errno])
        break
    if pid == 0:
        time.sleep(20)
        os._exit(0)
    made.append(pid)
else:
    got.append("all of them")
tell()
for pid in made: os.kill(pid, signal.SIGKILL)
"""
)
EAT = (
    attacks.HEAD
    + f"""
kept = []
try:
    for number in range({MEMORY_MIB} // 16):
        kept.append(bytearray(16 << 20))
        kept[-1][::4096] = b"x" * len(kept[-1][::4096])
    got.append("all of it")
except MemoryError:
    held.append("MemoryError")
tell()
"""
)


def attack_set(target: Target) -> Sequence[Attack]:
    """Return the attacks on this target, in the order of the table."""
    pid = target.neighbour_pid
    look = attacks.look_at_processes(pid)
    trace = attacks.trace_processes(pid)
    network = attacks.reach_network(target.tcp_port, target.unix_path, target.abstract)
    calls = attacks.SYSTEM_CALLS
    beside = str(Path(target.neighbours_file).parent)
    outside = attacks.write_outside("/", "/usr/bin", "/etc", "/opt", "/home", beside)
    change = (
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sysrq-trigger",
    )
    devices = ("/dev/mem", "/dev/kmsg", "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/vda")
    return (
        Attack("a neighbour's environment", look, (f"/proc/{pid}/environ",)),
        Attack("a neighbour's files", attacks.read_files(target.neighbours_file)),
        Attack("the host's /etc/shadow", attacks.read_files("/etc/shadow")),
        Attack("writing outside of the workspace", outside),
        Attack("raw and rare sockets", network, ("raw", "packet", "bluetooth", "netlink audit", "vsock")),
        Attack("a service on the host's loopback", network, ("tcp",)),
        Attack("an abstract Unix socket of the host", network, ("abstract",)),
        Attack("a Unix socket of the host, by its path", network, ("unix",)),
        Attack("the metadata address", network, ("metadata",)),
        Attack("tracing a neighbour", trace, ("ptrace",)),
        Attack("writing into a neighbour's memory", trace, ("mem",)),
        Attack("changing a neighbour's limits and priority", attacks.change_processes(pid, all_of_user=False)),
        Attack("opening /proc/sys and sysrq for writing", open_for_writing(*change)),
        Attack("devices, mknod, the kernel's log", open_for_writing(*devices)),
        Attack("loading a module, another kernel", calls, ("init_module", "kexec_load", "reboot")),
        Attack("a new user namespace", calls, ("unshare user", "clone user", "clone3 user")),
        Attack("mounting", calls, ("mount", "umount", "pivot_root", "chroot", "unshare mount", "open_tree", "fsopen", "setns")),
        Attack("bpf, io_uring, perf, keys, userfaultfd", calls, ("bpf", "perf", "userfaultfd", "io_uring", "keyctl", "add_key")),
        Attack("a setuid-root program", SETUID),
        Attack("killing the sidecar", signal_named(target.sidecar_pid)),
        Attack(f"{FORKS} processes", FORK, is_bound=True),
        Attack(f"{MEMORY_MIB} MiB of memory", EAT, is_bound=True),
        Attack("256 MiB in one file", attacks.fill_disk("."), is_bound=True),
    )  # fmt: skip
