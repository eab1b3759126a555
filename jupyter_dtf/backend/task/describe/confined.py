"""Sandboxing of a process, which can then only read files and compute. It can no longer write files, open sockets, or
start programs.

Sandboxing needs no privileges. It uses three mechanisms, as far as the system supports them: a seccomp filter (Linux on
x86-64 and ARM64), Landlock (Linux 5.13; from 6.7 also for TCP), and resource limits (everywhere). The filter applies to
all threads. Files that are already open stay open.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
from pathlib import Path

MEMORY_BYTES = 4 << 30
"""The memory, in bytes, that the process may allocate in addition to the memory that it already uses."""
CPU_S = 300
"""The additional CPU time in seconds after which the process is killed by SIGXCPU."""

_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_FILTER_FLAG_TSYNC = 1

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""BPF opcodes: load a word; jump if the word equals a value, is at least that value, or has any of its bits; return."""
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_CLONE_THREAD = 0x10000
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_NEWEST = 463
"""The first system call number that this module does not know. System calls from this number on fail with ENOSYS."""

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_SECCOMP = (317, 277)
_OPEN, _OPENAT, _CLONE, _TGKILL, _PRLIMIT, _IOCTL = (2, None), (257, 56), (56, 220), (234, 131), (302, 261), (16, 29)
_ABSENT = ((437, 437), (435, 435))
"""The numbers of ``openat2`` and ``clone3``, which fail with ENOSYS. They pass their flags in memory, where filters
cannot see them. Libraries then fall back to older system calls."""
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # files
    "creat": (85, None), "truncate": (76, 45), "ftruncate": (77, 46), "fallocate": (285, 47),
    "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276), "mkdir": (83, None), "mkdirat": (258, 34),
    "rmdir": (84, None), "link": (86, None), "linkat": (265, 37), "unlink": (87, None), "unlinkat": (263, 35),
    "symlink": (88, None), "symlinkat": (266, 36), "mknod": (133, None), "mknodat": (259, 33), "chmod": (90, None),
    "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None), "fchown": (93, 55),
    "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "open_by_handle_at": (304, 265),
    # sockets
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242), "sendto": (44, 206), "sendmsg": (46, 211), "sendmmsg": (307, 269),
    # starting programs, and access to other processes
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kill": (62, 129), "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424), "pidfd_getfd": (438, 438), "shmget": (29, 194), "shmat": (30, 196),
    "msgget": (68, 186), "msgsnd": (69, 189), "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192),
    "mq_open": (240, 180), "mq_unlink": (241, 181), "mq_timedsend": (242, 182),
    # the system
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "swapon": (167, 224),
    "swapoff": (168, 225), "reboot": (169, 142), "sethostname": (170, 161), "setdomainname": (171, 162),
    "init_module": (175, 105), "delete_module": (176, 106), "finit_module": (313, 273), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "ioperm": (173, None), "iopl": (172, None), "unshare": (272, 97), "setns": (308, 268), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
}  # fmt: skip
"""The numbers of the rejected system calls on x86-64 and ARM64; None if the architecture does not have the call."""


def confine(memory_bytes: int = MEMORY_BYTES, cpu_s: int = CPU_S) -> list[str]:
    """Irrevocably restrict this process to reading files and computing.

    Anything else then fails with EPERM. Modules that write files when they are imported must be imported beforehand.
    Returns the names of the active mechanisms, such as ``seccomp``.
    """
    holds = []
    _limit(memory_bytes, cpu_s)
    holds.append("limits")
    if not platform.system().startswith("Linux"):
        return holds
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return holds
    if _landlock(libc):
        holds.append("landlock")
    if _seccomp(libc):
        holds.append("seccomp")
    return holds


def _limit(memory_bytes: int, cpu_s: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + cpu_s, more=10)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, 0)
    status = Path("/proc/self/status")
    if status.exists():
        data = next(line for line in status.read_text().splitlines() if line.startswith("VmData"))
        _lower(resource.RLIMIT_DATA, int(data.split()[1]) * 1024 + memory_bytes)


def _lower(limit: int, value: int, more: int = 0) -> None:
    """Lower a limit irrevocably; ``more`` is the difference between the soft and the hard limit."""
    _, hard = resource.getrlimit(limit)
    soft, hard = (
        (value, value + more) if hard == resource.RLIM_INFINITY else (min(value, hard), min(value + more, hard))
    )
    resource.setrlimit(limit, (soft, hard))


def _landlock(libc: ctypes.CDLL) -> bool:
    """Forbid all changes to files and all use of TCP by this thread and the threads that it will start."""
    version = libc.syscall(444, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    files = (1 << 13) - 1
    files &= ~(1 << 2 | 1 << 3)  # these bits would forbid reading files and directories
    files |= (version >= 2) << 13 | (version >= 3) << 14 | (version >= 5) << 15
    rules = struct.pack("=QQ", files, 0b11 if version >= 4 else 0)[: 16 if version >= 4 else 8]
    ruleset = libc.syscall(444, rules, ctypes.c_size_t(len(rules)), 0)
    if ruleset < 0:
        return False
    try:
        return bool(libc.syscall(446, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _seccomp(libc: ctypes.CDLL) -> bool:
    """Install the filter for every thread of this process."""
    if platform.machine() not in _ARCHITECTURES:
        return False
    audit, which = _ARCHITECTURES[platform.machine()]
    code = b"".join(_program(audit, which, os.getpid()))
    instructions = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    program = Program(len(code) // 8, ctypes.addressof(instructions))
    call = (_SECCOMP[which], _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC, ctypes.byref(program))
    return bool(libc.syscall(*call) == 0)


def _program(audit: int, which: int, pid: int) -> list[bytes]:
    """Return the filter's instructions.

    In ``seccomp_data``, the system call's number is at offset 0, the architecture at 4, and the arguments at 16, 24...
    """
    refuse, absent = _instruction(_RETURN, _REFUSE | errno.EPERM), _instruction(_RETURN, _REFUSE | errno.ENOSYS)
    allow, kill = _instruction(_RETURN, _ALLOW), _instruction(_RETURN, _KILL)

    def only_if(number: int | None, argument: int, *checks: bytes) -> list[bytes]:
        """Return instructions that apply ``checks`` to one argument of one system call."""
        if number is None:
            return []
        inner = [_instruction(_LOAD, 16 + 8 * argument), *checks]
        return [_instruction(_EQUAL, number, 0, len(inner)), *inner]

    numbers = [pair[which] for pair in _REFUSED.values()]
    never = [_instruction(_EQUAL, number, 0, 1) + refuse for number in numbers if number is not None]
    not_there = [_instruction(_EQUAL, pair[which], 0, 1) + absent for pair in _ABSENT]
    reads_only = (_instruction(_ANY_BIT, _WRITES, 0, 1), refuse, allow)
    terminals = (_instruction(_EQUAL, _TIOCSTI, 1, 0), _instruction(_EQUAL, _TIOCLINUX, 0, 1), refuse, allow)
    return [
        _instruction(_LOAD, 4),
        _instruction(_EQUAL, audit, 1, 0),
        kill,
        _instruction(_LOAD, 0),
        _instruction(_AT_LEAST, _NEWEST, 0, 1),
        absent,
        *not_there,
        *never,
        *only_if(_OPEN[which], 1, *reads_only),
        *only_if(_OPENAT[which], 2, *reads_only),
        *only_if(_CLONE[which], 0, _instruction(_ANY_BIT, _CLONE_THREAD, 1, 0), refuse, allow),
        *only_if(_TGKILL[which], 0, _instruction(_EQUAL, pid, 1, 0), refuse, allow),  # as abort() does
        *only_if(_PRLIMIT[which], 0, _instruction(_EQUAL, 0, 1, 0), refuse, allow),
        *only_if(_IOCTL[which], 1, *terminals),
        allow,
    ]


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
