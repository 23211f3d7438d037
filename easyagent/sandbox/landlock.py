"""Landlock by ctypes: confine this process and all it starts to paths it may read and write (Linux 5.13 on).

Standard library only, because the runner loads it by path. Rules only add: what no rule grants is denied.
System call numbers and bits are those of linux/landlock.h, the same on x86_64 and aarch64.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_FIRST_VERSION = (1 << 13) - 1
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_FILE_ONLY = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_BIND_TCP, _CONNECT_TCP = 1, 2
_SCOPE_ABSTRACT_SOCKET, _SCOPE_SIGNAL = 1, 2


class _RulesetAttribute(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("descriptor", ctypes.c_int32)]


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    result = int(_libc().syscall(number, *arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def version() -> int:
    """The Landlock ABI of this kernel; 0 where there is none or it is switched off."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))
    except OSError:
        return 0


def restrict(
    read: Iterable[str], write: Iterable[str], listing: Iterable[str] = (), *, network: bool, most: int | None = None
) -> int:
    """Confine this thread and what it starts from now on: call it before any thread exists.

    `listing`: directories whose names, and those of all below, can be listed, but not read. Paths that do not exist are
    passed over. Without `network` no TCP port can be bound or connected to (ABI 4). `most`: the ABI to stop at, which
    gives what an older kernel gives. Returns the ABI in force, 0 where nothing was done. Raises OSError where the
    kernel refuses.
    """
    abi = version() if most is None else min(version(), most)
    if abi == 0:
        return 0
    files = _FIRST_VERSION
    files |= _REFER if abi >= 2 else 0
    files |= _TRUNCATE if abi >= 3 else 0
    files |= _IOCTL_DEVICE if abi >= 5 else 0
    ports = 0 if network or abi < 4 else _BIND_TCP | _CONNECT_TCP
    scoped = _SCOPE_ABSTRACT_SOCKET | _SCOPE_SIGNAL if abi >= 6 else 0
    attribute = _RulesetAttribute(files, ports, scoped)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = _call(_CREATE_RULESET, ctypes.byref(attribute), ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        for path in read:
            _allow(ruleset, path, _READ & files)
        for path in listing:
            _allow(ruleset, path, _READ_DIR & files)
        for path in write:
            _allow(ruleset, path, files & ~(_MAKE_CHAR | _MAKE_BLOCK))
        if _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "no_new_privs was refused")
        _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
    return abi


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            access &= _FILE_ONLY
        rule = _PathBeneath(access, descriptor)
        _call(
            _ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_RULE_PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0)
        )
    finally:
        os.close(descriptor)
