"""The read-only root of the `namespace` class: built once per zygote, copied by the kernel into each sandbox.

The zygote itself lives in it, in a mount namespace of its own. A child thus copies a dozen mounts instead of the
host's, and nothing of the host has to be unmounted at a start: it was never there. Only what differs from pod to
pod is mounted then: /proc, /tmp and the workspace. Standard library only: runs inside the zygotes.
"""

from __future__ import annotations

import errno
import os
import stat

from confinement import linux

WORKSPACE = "/workspace"
_PODS, _HOST_PROC = "/.pods", "/.proc"
_LOCKED = linux.MS_NOSUID | linux.MS_NODEV

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    "alternatives", "ca-certificates.conf", "debian_version", "fonts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
    "localtime", "magic", "mime.types", "os-release", "profile", "protocols", "services", "ssl/certs", "ssl/openssl.cnf",
    "pki/tls/certs", "pki/ca-trust/extracted", "terminfo", "timezone", "xattr.conf",
)  # fmt: skip
_ETC_OWN = {
    "passwd": "root:x:0:0:root:/:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "hostname": "sandbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "resolv.conf": "",
}
_DEVICES = {
    "null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0),
}  # fmt: skip
_LINKS = {
    "dev/fd": "/proc/self/fd", "dev/stdin": "/proc/self/fd/0", "dev/stdout": "/proc/self/fd/1",
    "dev/stderr": "/proc/self/fd/2", "dev/shm": "/tmp", "etc/mtab": "/proc/self/mounts", "var/tmp": "/tmp",
    "dev/ptmx": "pts/ptmx",
}  # fmt: skip


class Root:
    """The root that the calling process has moved into; what remains to be done for each pod."""

    def __init__(self, pods_dir: str, read_only: list[str], *, ordinary: bool) -> None:
        """Build the root on a tmpfs of its own and move the calling process into it, for good.

        Args:
            pods_dir: where the workspaces are. The tmpfs is mounted over it, which this process alone sees.
            read_only: further paths to show under their own names, such as Python's prefix.
            ordinary: the process is no root but in a user namespace.

        Raises:
            OSError: not permitted, or a path is missing.
        """
        scratch = pods_dir
        self._ordinary = ordinary
        linux.unshare(linux.CLONE_NEWNS)
        linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
        pods = os.open(pods_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        # In a user namespace a mount keeps the flags that its source has.
        self._workspace_flags = _LOCKED | _flags_of(pods_dir)
        linux.mount("sandbox", scratch, "tmpfs", linux.MS_NOSUID, "size=16m,mode=755")
        folders = (
            "proc",
            "tmp",
            "dev",
            "etc",
            "var",
            "home",
            "run",
            "dev/pts",
            _PODS,
            _HOST_PROC,
            WORKSPACE,
        )
        for name in folders:
            os.makedirs(f"{scratch}/{name.lstrip('/')}", exist_ok=True)
        for path in (*_SYSTEM, *read_only):
            _show(path, scratch)
        _fill_etc(scratch)
        for name, (major, minor) in _DEVICES.items():
            _make_device(f"{scratch}/dev/{name}", os.makedev(major, minor))
        for name, target in _LINKS.items():
            os.symlink(target, f"{scratch}/{name}")
        linux.mount(f"/proc/self/fd/{pods}", f"{scratch}{_PODS}", None, linux.MS_BIND)
        os.close(pods)
        if ordinary:  # who has no root may mount a new /proc only where a whole one is in sight
            linux.mount("/proc", f"{scratch}{_HOST_PROC}", None, linux.MS_BIND | linux.MS_REC)
        os.chdir(scratch)
        linux.pivot_root_here()
        linux.mount(
            None, "/", None, linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY | linux.MS_NOSUID
        )

    def mount_pod(self, pod: str, tmp_mib: int) -> None:
        """Complete the root for one pod, in a mount namespace of its own.

        Args:
            pod: name of its directory.
            tmp_mib: size of /tmp, MiB.

        Raises:
            OSError: refused by the kernel.
        """
        linux.mount("proc", "/proc", "proc", _LOCKED | linux.MS_NOEXEC)
        options = f"size={tmp_mib}m,nr_inodes=65536,mode=1777"
        linux.mount("tmp", "/tmp", "tmpfs", _LOCKED, options)
        terminals = "newinstance,ptmxmode=0666,mode=0600"
        linux.mount("devpts", "/dev/pts", "devpts", linux.MS_NOSUID | linux.MS_NOEXEC, terminals)
        linux.mount(f"{_PODS}/{pod}/workspace", WORKSPACE, None, linux.MS_BIND)
        flags = linux.MS_BIND | linux.MS_REMOUNT | self._workspace_flags
        linux.mount(None, WORKSPACE, None, flags)
        linux.unmount(_PODS)
        if self._ordinary:
            linux.unmount(_HOST_PROC)


def _flags_of(path: str) -> int:
    """Return the flags of the mount that `path` is on, as mount() takes them."""
    present = os.statvfs(path).f_flag
    pairs = (
        (os.ST_NOSUID, linux.MS_NOSUID), (os.ST_NODEV, linux.MS_NODEV), (os.ST_NOEXEC, linux.MS_NOEXEC),
    )  # fmt: skip
    return sum(flag for kept, flag in pairs if present & kept)


def _show(path: str, root: str) -> None:
    """Let `path` of the host appear read-only under the same name; a symbolic link is copied as one."""
    try:
        kind = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    target = root + path
    if os.path.lexists(target):
        return  # below something that is shown already
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    if stat.S_ISLNK(kind):
        os.symlink(os.readlink(path), target)
        return
    if stat.S_ISDIR(kind):
        os.mkdir(target, 0o755)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    try:
        linux.mount(path, target, None, linux.MS_BIND)
    except OSError as exc:
        if exc.errno != errno.EINVAL:
            raise
        # In a user namespace a mount cannot be parted from what is mounted below it.
        linux.mount(path, target, None, linux.MS_BIND | linux.MS_REC)
    flags = linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY | _LOCKED | _flags_of(path)
    linux.mount(None, target, None, flags)


def _fill_etc(root: str) -> None:
    for name, text in _ETC_OWN.items():
        with open(f"{root}/etc/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    for name in _ETC:
        path = f"/etc/{name}"
        if os.path.isfile(path):  # copied: one mount less in every sandbox
            target = f"{root}{path}"
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(path, "rb") as source, open(target, "wb") as copy:
                copy.write(source.read())
        elif os.path.isdir(path):
            _show(path, root)


def _make_device(target: str, number: int) -> None:
    try:
        os.mknod(target, stat.S_IFCHR | 0o666, number)
        os.chmod(target, 0o666)
    except PermissionError:  # a container without CAP_MKNOD
        source = f"/dev/{os.path.basename(target)}"
        if os.path.exists(source):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
            linux.mount(source, target, None, linux.MS_BIND)
