"""The isolation classes of this machine: tried once at the start, then used by name. One zygote per kind of root."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from local_node.adapters.pod_files import PodFiles
from local_node.adapters.uids import UidRange
from local_node.adapters.zygote.client import SOURCES, ZygoteConfig
from local_node.adapters.zygote.kept import KeptZygote
from local_node.ports import Child, StartRefused
from shared import logs
from shared.errors import Unavailable
from shared.pools import ISOLATION_CLASSES

log = logs.get(__name__)

_ROOTED = ("namespace",)
_FORKED = ("process", "landlock", "namespace")
_NO_DRIVER = "local-node has no driver for it"
_PROBE_TIMEOUT_S = 10.0
_START_TIMEOUT_S = 10.0
_PROBE_LIMITS = {"nofile": 1024, "core": 0}


@dataclasses.dataclass(frozen=True)
class SandboxSettings:
    """What all sandboxes of a node share."""

    python: str
    """Interpreter that runs in sandboxes, absolute path."""
    prefix: str
    """Where that interpreter is installed."""
    module: str
    """The runner."""
    read_only: tuple[str, ...]
    """Further paths that sandboxes may read."""
    offered: tuple[str, ...]
    """Classes that may be used at all."""
    tmp_mib: int
    """Size of /tmp where a sandbox has its own, MiB."""


class Sandboxes:
    """Starts confined runners."""

    def __init__(
        self, settings: SandboxSettings, files: PodFiles, on_death: Callable[[str], None]
    ) -> None:
        """Describe them; `probe` finds out what this machine has."""
        self._settings = settings
        self._files = files
        self._on_death = on_death
        self._zygotes: dict[bool, KeptZygote] = {}
        self._uids = UidRange() if os.geteuid() == 0 else None
        self._own_uid: dict[str, bool] = {}
        self._counted_apart: dict[str, bool] = {}
        self._user_processes = 0
        self.available: dict[str, str] = {}
        """Class -> empty if it is here, else why not."""

    async def probe(self) -> None:
        """Try every class by really starting a sandbox that checks its own walls."""
        self._user_processes = _count_user_processes()
        for isolation in ISOLATION_CLASSES:
            if isolation not in _FORKED:
                reason = _NO_DRIVER
            elif isolation not in self._settings.offered:
                reason = "switched off by the settings"
            else:
                reason = await self._try_class(isolation)
            self.available[isolation] = reason
            log.info("isolation.probed", isolation=isolation, available=not reason, why=reason)
        there = [name for name in ISOLATION_CLASSES if not self.available[name]]
        for rooted in list(self._zygotes):
            if not there or rooted != (there[-1] in _ROOTED):
                await self._zygotes.pop(rooted).close()  # started again by its first use

    def uid_for(self, isolation: str, in_use: set[int]) -> int | None:
        """Return an unused uid for a sandbox, or None where it runs under the node's own."""
        if self._uids is None or not self._own_uid.get(isolation):
            return None
        return self._uids.take(in_use)

    def user_processes(self, isolation: str) -> int | None:
        """Return how many processes the kernel counts with a sandbox's; None: only its own."""
        return None if self._counted_apart.get(isolation) else self._user_processes

    async def start(self, request: dict[str, Any], fds: tuple[int, ...]) -> Child:
        """Fork a confined runner.

        Raises:
            ServiceError: it could not be started; nothing untrusted runs.
        """
        zygote = self._zygote(request["isolation"] in _ROOTED)
        full = {"tmp_mib": self._settings.tmp_mib, **request}
        return await zygote.start(full, fds, timeout_s=_START_TIMEOUT_S)

    async def close(self) -> None:
        """End every sandbox."""
        for zygote in self._zygotes.values():
            await zygote.close()
        self._zygotes.clear()
        if self._uids is not None:
            self._uids.close()

    def _zygote(self, rooted: bool) -> KeptZygote:
        if rooted not in self._zygotes:
            self._zygotes[rooted] = KeptZygote(self._config(rooted), self._on_death)
        return self._zygotes[rooted]

    def _config(self, rooted: bool) -> ZygoteConfig:
        settings = self._settings
        return ZygoteConfig(
            name="sandbox-rooted" if rooted else "sandbox-plain",
            python=settings.python,
            site=False,
            settings={
                "role": "sandbox",
                "path": _folders_of(settings.module),
                "own_path": SOURCES,
                "module": settings.module,
                "pods_dir": str(self._files.pods_dir),
                "read_only": _with_targets(settings.prefix, *settings.read_only),
                "rooted": rooted,
            },
        )

    async def _try_class(self, isolation: str) -> str:
        """Return why a class is not available; empty where it is."""
        own_uid = self._uids is not None
        reason = await self._try(isolation, own_uid)
        if reason and own_uid and isolation == "process":
            own_uid, reason = False, await self._try(isolation, False)
        self._own_uid[isolation] = own_uid
        return reason

    async def _try(self, isolation: str, own_uid: bool) -> str:
        pod = f"probe-{isolation}"
        uid = self._uids.take(()) if own_uid and self._uids is not None else None
        if uid is not None and isolation not in _ROOTED:
            shut = shut_folder(self._files.pods_dir)
            if shut is not None:
                return f"{shut} is shut to the users of sandboxes: chmod o+x {shut}, or choose another state folder"
        self._files.create(pod, uid, with_tmp=isolation not in _ROOTED)
        request = {
            "pod": pod, "isolation": isolation, "uid": uid, "rlimits": _PROBE_LIMITS, "niceness": 0, "probe": True,
            "memory_bounded": False,
        }  # fmt: skip
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                with Path(os.devnull).open("rb") as nothing:  # noqa: ASYNC230 - no disk behind it
                    child = await self.start(request, (nothing.fileno(),))
                ended = await child.exited
        except TimeoutError:
            return f"its trial did not end within {_PROBE_TIMEOUT_S:g} s"
        except (Unavailable, StartRefused) as exc:
            return _last_line(str(exc))
        finally:
            self._files.discard(pod)
        if ended.code == 0:
            facts = self._zygotes[isolation in _ROOTED].facts
            self._counted_apart[isolation] = own_uid or bool(facts["counts_by_namespace"])
            return ""
        return _last_line(ended.detail) or f"its trial ended with {ended.code or ended.signal}"


def _count_user_processes() -> int:
    """Return how many processes and threads this process's user has."""
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == os.geteuid():
                    count += sum(1 for _ in (entry / "task").iterdir())
    return count


def shut_folder(path: Path) -> Path | None:
    """Return the outermost folder on the way to `path` that users other than its own may not pass, or None."""
    way = [folder for folder in reversed(path.resolve().parents) if folder.exists()]
    return next((folder for folder in way if not folder.stat().st_mode & 0o001), None)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def _with_targets(*paths: str) -> list[str]:
    """Return the paths, and where those lead that are symbolic links."""
    return list(dict.fromkeys(each for path in paths for each in (path, str(Path(path).resolve()))))


def _folders_of(module: str) -> list[str]:
    """Return the folders that `module` is imported from, without importing it.

    Raises:
        Unavailable: there is no such module.
    """
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise Unavailable(f"runner module {module!r}: not found")
    origin = Path(spec.origin)
    return [str(origin.parents[1] if spec.submodule_search_locations else origin.parent)]
