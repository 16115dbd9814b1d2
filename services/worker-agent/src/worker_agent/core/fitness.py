"""Whether a pod has the isolation class that it was started for, as seen from inside. Pure."""

from __future__ import annotations

import msgspec

_KATA_MOUNT = "kataShared"
_KATA_BOOT = ("agent.log", "systemd.unit=kata-containers.target")


class Seen(msgspec.Struct, frozen=True):
    """What a process can see of the kernel that it runs on."""

    gvisor: bool
    """Its log says that it is gVisor's."""
    mounts: str = ""
    """`/proc/mounts`"""
    boot: str = ""
    """`/proc/cmdline`"""


def why_unfit(isolation: str, seen: Seen) -> str:
    """Return why the class is not there; empty if it is.

    `oci` is what every container has. A guest of Kata shares the pod's volumes with its host under a name of Kata's own, or
    was booted with its agent's options: neither can be had by a wrong RuntimeClass.
    """
    if isolation == "oci":
        return ""
    if isolation == "gvisor":
        return "" if seen.gvisor else "this pod was to run on gVisor, and its kernel is another"
    if isolation == "kata":
        guest = _KATA_MOUNT in seen.mounts or any(word in seen.boot for word in _KATA_BOOT)
        return (
            ""
            if guest
            else "this pod was to run in a Kata guest, and its kernel is not booted by Kata"
        )
    return f"isolation {isolation!r}: no class that a pod on Kubernetes can have"
