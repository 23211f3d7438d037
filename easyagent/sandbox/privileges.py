"""Dropping what root can do beside its files. Standard library only, loaded by path."""

from __future__ import annotations

import ctypes
import os

_CAPABILITY_VERSION_3 = 0x20080522
_PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL = 24, 47, 4
_HIGHEST_CAPABILITY = 63
_PR_SET_SECUREBITS = 28
_NOROOT_AND_LOCKS = 0b101111
"""SECBIT_NOROOT, NO_SETUID_FIXUP and KEEP_CAPS_LOCKED with their locks: an exec as uid 0 gives nothing back."""


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Data(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]


def drop() -> None:
    """Give up every capability for good, also across exec. Raises OSError where one would stay."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(_HIGHEST_CAPABILITY + 1):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # those the kernel does not know are refused
    libc.prctl(_PR_SET_SECUREBITS, _NOROOT_AND_LOCKS, 0, 0, 0)
    header, data = _Header(_CAPABILITY_VERSION_3, 0), (_Data * 2)()
    if libc.capset(ctypes.byref(header), ctypes.byref(data)):
        raise OSError(ctypes.get_errno(), "capabilities could not be dropped")
