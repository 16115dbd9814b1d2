"""System call numbers that the confinement needs, for the two machines that it supports. Pure, standard library only."""

from __future__ import annotations

AUDIT_ARCH: dict[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""What seccomp calls the machine."""

NEVER_NEEDED: dict[str, tuple[int | None, int | None]] = {
    # mounts and namespaces: what the confinement is made of
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_tree_attr": (467, 467), "statmount": (457, 457),
    "listmount": (458, 458), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "mknod": (133, None), "mknodat": (259, 33), "swapon": (167, 224), "swapoff": (168, 225),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    # other processes' memory and descriptors
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "pidfd_getfd": (438, 438), "kcmp": (312, 272),
    # the kernel itself
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142), "acct": (163, 89),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "adjtimex": (159, 171), "syslog": (103, 116), "iopl": (172, None), "ioperm": (173, None),
    "vhangup": (153, 58), "personality": (135, 92), "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42), "uselib": (134, None), "modify_ldt": (154, None),
    # large attack surface, no use for a task
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
}  # fmt: skip
"""Name -> (x86_64, aarch64): refused with EPERM. None: the machine has no such call."""

SHARED_OBJECTS: dict[str, tuple[int, int]] = {
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193),
    "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180), "memfd_create": (319, 279),
}  # fmt: skip
"""Name -> (x86_64, aarch64): memory that no process's size shows, and, but for the last, that outlives processes and is
everybody's where there is no IPC namespace."""

OF_A_PROCESS: dict[str, tuple[int, int]] = {
    "prlimit64": (302, 261), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122), "sched_setattr": (314, 274),
}  # fmt: skip
"""Name -> (x86_64, aarch64): calls whose first argument is a process, 0 for the caller."""

OF_A_GROUP: dict[str, tuple[int, int]] = {"setpriority": (141, 140), "ioprio_set": (251, 30)}
"""Name -> (x86_64, aarch64): calls whose second argument is a process, group or user, 0 for the caller's; the first says
which of them."""

SIGNALS: dict[str, tuple[int, int]] = {
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434),
}  # fmt: skip
"""Name -> (x86_64, aarch64): calls that signal the process or thread that their first argument names, or lead to it."""

CALLS: dict[str, tuple[int, int]] = {
    **SHARED_OBJECTS, **OF_A_PROCESS, **OF_A_GROUP, **SIGNALS,
    "clone": (56, 220), "clone3": (435, 435), "socket": (41, 198), "connect": (42, 203),
    "bind": (49, 200), "listen": (50, 201), "sendto": (44, 206), "sendmsg": (46, 211),
    "sendmmsg": (307, 269), "ioctl": (16, 29),
    "landlock_create_ruleset": (444, 444), "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446), "pivot_root": (155, 41),
}  # fmt: skip
"""Name -> (x86_64, aarch64): calls that the filter judges by their arguments, or that we make by number."""

_COLUMN = {"x86_64": 0, "aarch64": 1}


def number(name: str, machine: str) -> int:
    """Return the number of a call of `CALLS` on this machine."""
    return CALLS[name][_COLUMN[machine]]


def never_needed(machine: str) -> list[int]:
    """Return the numbers of all calls that a confined task is refused."""
    column = _COLUMN[machine]
    found = (pair[column] for pair in NEVER_NEEDED.values())
    return sorted(n for n in found if n is not None)
