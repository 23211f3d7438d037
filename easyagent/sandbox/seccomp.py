"""A seccomp filter by ctypes: closes what Landlock leaves open. Standard library only, loaded by path.

Denied with EPERM: sockets other than TCP where the network is granted and all but socketpairs where it is
not, io_uring, ptrace and its kin, keyrings, bpf, userfaultfd, user namespaces' way around (mount, unshare,
setns), and typing into the terminal (TIOCSTI). Where Landlock does not hold truncation (before ABI 3), also
truncation by path, and opening for reading with O_TRUNC, which empties a file that may only be read. Numbers are
those of the x86_64 and aarch64 system call tables.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER_MODE = 38, 22, 2
_LOAD, _AND, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_ALLOW, _KILL_PROCESS = 0x7FFF0000, 0x80000000
_DENY, _ABSENT = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
_OFFSET_NUMBER, _OFFSET_ARCHITECTURE, _OFFSET_FIRST, _OFFSET_SECOND, _OFFSET_THIRD = 0, 4, 16, 24, 32
_X32_BIT = 0x40000000
_TIOCSTI = 0x5412

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_NAMES = (
    "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "io_uring_setup", "keyctl", "add_key",
    "request_key", "bpf", "userfaultfd", "mount", "unshare", "setns", "pivot_root", "chroot", "kexec_load",
    "init_module", "finit_module", "open_by_handle_at", "perf_event_open",
)  # fmt: skip
_TABLES: dict[str, tuple[int, int, int, tuple[int, ...]]] = {
    # architecture, socket, ioctl, numbers in the order of _NAMES
    "x86_64": (
        0xC000003E, 41, 16,
        (101, 310, 311, 438, 425, 250, 248, 249, 321, 323, 165, 272, 308, 155, 161, 246, 175, 313, 304, 298),
    ),
    "aarch64": (
        0xC00000B7, 198, 29,
        (117, 270, 271, 438, 425, 219, 217, 218, 280, 282, 40, 97, 268, 41, 51, 104, 105, 273, 265, 241),
    ),
}  # fmt: skip

_OPENAT2 = 437
_OPENING: dict[str, tuple[int, tuple[tuple[int, int], ...]]] = {
    # truncate, and each call that opens with the place of its flags
    "x86_64": (76, ((2, _OFFSET_SECOND), (257, _OFFSET_THIRD))),
    "aarch64": (45, ((56, _OFFSET_THIRD),)),
}

Instruction = tuple[int, int, int, int]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def supported() -> bool:
    """True where this machine's system call table is known."""
    return platform.machine() in _TABLES


def install(*, network: bool, truncation: bool = True) -> bool:
    """Put the filter on this process and all it starts; False where the machine is unknown or the kernel refuses.

    `network` leaves IPv4, IPv6 and netlink (name resolution reads it) sockets open; unix sockets stay closed,
    since local daemons such as Docker's give away the machine. `truncation`: it is held by other means.
    """
    if not supported():
        return False
    program = _program(allowed_families=(_INET, _INET6, _NETLINK) if network else (), truncation=truncation)
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = _Program(len(program), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    return bool(libc.prctl(_PR_SET_SECCOMP, _FILTER_MODE, ctypes.byref(header), 0, 0) == 0)


def _program(*, allowed_families: tuple[int, ...], truncation: bool) -> list[Instruction]:
    architecture, socket, ioctl, denied = _TABLES[platform.machine()]
    program: list[Instruction] = [
        (_LOAD, 0, 0, _OFFSET_ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
    ]
    if platform.machine() == "x86_64":
        program += [(_JUMP_GREATER_EQUAL, 0, 1, _X32_BIT), (_RETURN, 0, 0, _DENY)]
    for number in denied:
        program += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _DENY)]
    if not truncation:
        program += _no_truncation()
    families: list[Instruction] = []
    for family in allowed_families:
        families += [(_JUMP_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    program += [
        (_JUMP_EQUAL, 0, len(families) + 2, socket),
        (_LOAD, 0, 0, _OFFSET_FIRST),
        *families,
        (_RETURN, 0, 0, _DENY),
    ]
    program += [
        (_JUMP_EQUAL, 0, 3, ioctl),
        (_LOAD, 0, 0, _OFFSET_SECOND),
        (_JUMP_EQUAL, 0, 1, _TIOCSTI),
        (_RETURN, 0, 0, _DENY),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return program


def _no_truncation() -> list[Instruction]:
    """By path, and by an opening for reading. openat2 hides its flags from a filter: programs do without it."""
    truncate, openings = _OPENING[platform.machine()]
    program: list[Instruction] = [
        (_JUMP_EQUAL, 0, 1, truncate),
        (_RETURN, 0, 0, _DENY),
        (_JUMP_EQUAL, 0, 1, _OPENAT2),
        (_RETURN, 0, 0, _ABSENT),
    ]
    for number, place in openings:
        program += [
            (_JUMP_EQUAL, 0, 4, number),
            (_LOAD, 0, 0, place),
            (_AND, 0, 0, os.O_TRUNC | os.O_ACCMODE),
            (_JUMP_EQUAL, 0, 1, os.O_TRUNC | os.O_RDONLY),
            (_RETURN, 0, 0, _DENY),
            (_LOAD, 0, 0, _OFFSET_NUMBER),  # the accumulator may hold the flags
        ]
    return program
