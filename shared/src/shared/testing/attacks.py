"""Attacks as programs for a sandbox. Each prints one JSON object: what it got, and what stopped it."""

from __future__ import annotations

from pathlib import Path

HEAD = """
import ctypes, errno, json, os, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
got, held = [], []
def tell(): print(json.dumps({"got": got, "held": held}), flush=True)
def attempt(name, function, *arguments):
    try:
        answer = function(*arguments)
    except OSError as exc:
        held.append(f"{name}: {errno.errorcode.get(exc.errno, exc)}")
    else:
        got.append(f"{name}: {str(answer)[:60]}")
def call(number, *arguments):
    ctypes.set_errno(0)
    answer = libc.syscall(ctypes.c_long(number), *arguments)
    if answer < 0: raise OSError(ctypes.get_errno(), "refused")
    return answer
def read(path):
    with open(path, "rb") as file: return file.read(200)
def start_of(pid):
    try: return read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[19].decode()
    except OSError: return None
def others(starts):  # a process of this pod's own may bear the number of a victim in another process namespace
    return [pid for pid, start in starts if pid == 1 or start_of(pid) in (None, start)]
"""


def starts_of(pids: tuple[int, ...]) -> list[tuple[int, str]]:
    """Return victims with the times of their starts, which are the same in every process namespace."""
    stats = {pid: Path(f"/proc/{pid}/stat").read_text() for pid in pids}
    return [(pid, stat.rpartition(")")[2].split()[19]) for pid, stat in stats.items()]


def read_files(*paths: str) -> str:
    """Read files and list folders of others."""
    return (
        HEAD
        + f"""
for path in {list(paths)!r}:
    attempt(path, os.listdir if os.path.isdir(path) else read, path)
tell()
"""
    )


def write_outside(*folders: str) -> str:
    """Make files outside of the workspace."""
    return (
        HEAD
        + f"""
for folder in {list(folders)!r}:
    attempt(folder, lambda: os.close(os.open(folder + "/.planted", os.O_CREAT | os.O_WRONLY)))
tell()
"""
    )


def look_at_processes(*pids: int) -> str:
    """Read what other processes hold, by their numbers and by all that can be listed."""
    return (
        HEAD
        + f"""
try: seen = [int(name) for name in os.listdir("/proc") if name.isdigit()]
except OSError: seen = []
mine = set()
def own(pid):  # ourselves and who started us
    while pid > 0:
        mine.add(pid)
        try: pid = int(open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()[1])
        except OSError: return
own(os.getpid())
for pid in others({starts_of(pids)!r}) + [pid for pid in seen if pid not in mine and {bool(pids)}]:
    for name in ("environ", "maps", "mem", "fd", "cwd/.", "root/etc/shadow"):
        path = f"/proc/{{pid}}/{{name}}"
        attempt(path, os.listdir if name in ("fd", "cwd/.") else read, path)
tell()
"""
    )


def signal_processes(*pids: int) -> str:
    """Kill by number, and everybody at once."""
    return (
        HEAD
        + f"""
for pid in others({starts_of(pids)!r}):
    attempt(f"kill {{pid}}", os.kill, pid, signal.SIGKILL)
tell()
if os.fork() == 0:
    try: os.kill(-1, signal.SIGKILL)  # us, too
    finally: os._exit(0)
time.sleep(0.5)
"""
    )


def trace_processes(*pids: int) -> str:
    """Attach to others by ptrace and write into their memory."""
    return (
        HEAD
        + f"""
for pid in others({starts_of(pids)!r}):
    attempt(f"ptrace {{pid}}", call, 101 if os.uname().machine == "x86_64" else 117, 16, pid, 0, 0)
    attempt(f"mem {{pid}}", lambda: os.close(os.open(f"/proc/{{pid}}/mem", os.O_RDWR)))
tell()
"""
    )


def change_processes(*pids: int, all_of_user: bool = True) -> str:
    """Limit, slow down and pin others, by number and, if `all_of_user`, all of the same user: that can't be undone."""
    return (
        HEAD
        + f"""
import resource
for pid in others({starts_of(pids)!r}):
    attempt(f"prlimit {{pid}}", resource.prlimit, pid, resource.RLIMIT_CORE, (0, 0))
    attempt(f"priority {{pid}}", os.setpriority, os.PRIO_PROCESS, pid, 19)
    attempt(f"affinity {{pid}}", os.sched_setaffinity, pid, {{0}})
    attempt(f"scheduler {{pid}}", os.sched_setscheduler, pid, os.SCHED_IDLE, os.sched_param(0))
if {all_of_user}: attempt("priority of user", os.setpriority, os.PRIO_USER, 0, 19)
tell()
"""
    )


SHARE_MEMORY = (
    HEAD
    + """
attempt("shmget", call, 29 if os.uname().machine == "x86_64" else 194, 0x5A5A, 4096, 0o1666)
attempt("msgget", call, 68 if os.uname().machine == "x86_64" else 186, 0x5A5A, 0o1666)
attempt("mq_open", call, 240 if os.uname().machine == "x86_64" else 180, b"drill", 0o102, 0o666, 0)
tell()
"""
)


def reach_network(port: int, unix_path: str, abstract: str) -> str:
    """Reach servers of the host: TCP on its loopback, a Unix socket by its path, an abstract one; send raw packets."""
    return (
        HEAD
        + f"""
def connect(family, address):
    with socket.socket(family) as end:
        end.settimeout(2)
        end.connect(address)
        return end.recv(100)
attempt("tcp", connect, socket.AF_INET, ("127.0.0.1", {port}))
attempt("unix", connect, socket.AF_UNIX, {unix_path!r})
attempt("abstract", connect, socket.AF_UNIX, "\\0" + {abstract!r})
attempt("metadata", connect, socket.AF_INET, ("169.254.169.254", 80))
attempt("raw", socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)
attempt("packet", socket.socket, socket.AF_PACKET, socket.SOCK_RAW, 3)
attempt("bluetooth", socket.socket, 31, socket.SOCK_RAW, 1)
attempt("netlink audit", socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, 9)
attempt("vsock", socket.socket, 40, socket.SOCK_STREAM, 0)
tell()
"""
    )


SYSTEM_CALLS = (
    HEAD
    + """
x86 = os.uname().machine == "x86_64"
def clone3():
    arguments = struct.pack("=11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
    pid = call(435, arguments, len(arguments))
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)
    return pid
def clone():
    pid = call(56 if x86 else 220, ctypes.c_long(0x10000000 | 17), 0, 0, 0, 0)
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)
    return pid
for name, x, a, arguments in (
    ("mount", 165, 40, (b"none", b"/tmp", b"tmpfs", 0, 0)),
    ("umount", 166, 39, (b"/proc", 2)),
    ("pivot_root", 155, 41, (b".", b".")),
    ("chroot", 161, 51, (b".",)),
    ("unshare user", 272, 97, (0x10000000,)),
    ("unshare mount", 272, 97, (0x00020000,)),
    ("setns", 308, 268, (0, 0)),
    ("open_tree", 428, 428, (-100, b"/", 1)),
    ("fsopen", 430, 430, (b"tmpfs", 0)),
    ("bpf", 321, 280, (0, 0, 0)),
    ("perf_event_open", 298, 241, (0, 0, -1, -1, 0)),
    ("userfaultfd", 323, 282, (1,)),
    ("io_uring_setup", 425, 425, (1, 0)),
    ("keyctl", 250, 219, (0, -3, 0)),
    ("add_key", 248, 217, (b"user", b"x", b"y", 1, -3)),
    ("init_module", 175, 105, (b"x", 1, b"")),
    ("kexec_load", 246, 104, (0, 0, 0, 0)),
    ("reboot", 169, 142, (0, 0, 0, 0)),
    ("syslog", 103, 116, (3, b"x" * 64, 64)),
    ("personality", 135, 92, (0x0040000,)),
    ("open_by_handle_at", 304, 265, (-100, b"x" * 16, 0)),
    ("pidfd_getfd", 438, 438, (0, 0, 0)),
    ("settimeofday", 164, 170, (0, 0)),
    ("swapon", 167, 224, (b"/tmp/x", 0)),
):
    attempt(name, call, x if x86 else a, *arguments)
attempt("mknod", os.mknod, "device", 0o60666, os.makedev(254, 0))
attempt("clone3 user namespace", clone3)
attempt("clone user namespace", clone)
tell()
"""
)

PRIVILEGES = (
    HEAD
    + """
def status(name):
    with open("/proc/self/status") as file:
        return next(line.split()[1] for line in file if line.startswith(name))
attempt("setuid 0", os.setuid, 0)
attempt("setgid 0", os.setgid, 0)
attempt("setgroups", os.setgroups, [0])
attempt("chown", lambda: (open("owned", "w").close(), os.chown("owned", 0, 0)))
attempt("nice", os.nice, -5)
attempt("root shell", lambda: os.listdir("/root/.ssh"))
tell()
"""
)

FORK_BOMB = (
    HEAD
    + """
made, why = 0, ""
for _ in range(100000):
    try:
        pid = os.fork()
    except OSError as exc:
        why = errno.errorcode[exc.errno]
        break
    if pid == 0:
        try:
            for _ in range(100):
                try: os.fork()
                except OSError: time.sleep(0.05)
            time.sleep(60)
        finally: os._exit(0)
    made += 1
    if made > 2000: break
print(json.dumps({"made": made, "why": why}), flush=True)
"""
)

EAT_MEMORY = (
    HEAD
    + """
kept = []
for number in range(64):
    block = bytearray(16 << 20)
    block[::4096] = b"x" * len(block[::4096])
    kept.append(block)
    print(16 * (number + 1), flush=True)
"""
)


def fill_disk(*folders: str) -> str:
    """Write 256 MiB into one file of each folder."""
    return (
        HEAD
        + f"""
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def fill(folder):
    with open(folder + "/filler", "wb", buffering=0) as file:
        for _ in range(64):
            if file.write(b"x" * (4 << 20)) < (4 << 20): raise OSError(errno.ENOSPC, "short")
    return "all"
for folder in {list(folders)!r}:
    attempt(folder, fill, folder)
    try: os.unlink(folder + "/filler")
    except OSError: pass
tell()
"""
    )
