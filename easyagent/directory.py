"""Directory: one folder held open, in which others may write too, and may try to lead our writing elsewhere.

Every step down from a trusted root is taken without following a symbolic link, and what is done later is done relative
to the open folder: who swaps a folder for a link meanwhile wins nothing. Only regular files are touched.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Self

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
_NON_BLOCK = getattr(os, "O_NONBLOCK", 0)
HAS_DESCRIPTORS = os.open in os.supports_dir_fd and os.mkdir in os.supports_dir_fd
"""False on Windows, where paths are used and links are looked for before."""


class Directory:
    """A folder and its files; a context manager. Methods raise OSError where something is not as it should be."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path, self._descriptor = path, descriptor

    @classmethod
    def open(cls, root: Path, *names: str, create: bool = False) -> Self:
        """The folder reached from `root`, which is trusted, by names none of which is a link."""
        if not HAS_DESCRIPTORS:
            return cls(_walk(root, names, create=create), None)
        # O_PATH, where it is known, needs no right to read the folder: a sandbox may grant only what lies in it.
        flags = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | _CLOSE_ON_EXEC
        path, descriptor = root, os.open(root, flags)
        for name in names:
            path /= name
            try:
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, 0o700 if name.startswith(".") else 0o777, dir_fd=descriptor)
                below = os.open(name, flags | _NO_FOLLOW, dir_fd=descriptor)
            except OSError as error:
                reason = "it is a symbolic link" if path.is_symlink() else error.strerror
                raise OSError(error.errno, reason, str(path)) from None
            finally:
                os.close(descriptor)
            descriptor = below
        return cls(path, descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def open_file(self, name: str, flags: int, mode: int = 0o600) -> int:
        """A descriptor of a regular file that has no second name."""
        flags |= _NO_FOLLOW | _CLOSE_ON_EXEC | _NON_BLOCK | getattr(os, "O_BINARY", 0)
        descriptor = os.open(self._name(name), flags, mode, dir_fd=self._descriptor)
        information = os.fstat(descriptor)
        if not stat.S_ISREG(information.st_mode) or information.st_nlink > 1:
            os.close(descriptor)
            raise OSError(f"{self.path / name} is not a regular file of its own")
        return descriptor

    def read(self, name: str, limit_bytes: int) -> bytes | None:
        """The content of a file; None where it is missing, not regular, or larger than it may be."""
        try:
            descriptor = self.open_file(name, os.O_RDONLY)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            if os.fstat(descriptor).st_size > limit_bytes:
                return None
            return file.read(limit_bytes + 1)

    def replace(self, name: str, data: bytes, mode: int = 0o600) -> None:
        """Write a file so that a reader sees the old content or the new one, and a link at its place is replaced."""
        temporary = self._write_beside(name, data, mode)
        try:
            os.replace(
                self._name(temporary), self._name(name), src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor
            )
        except OSError:
            self.remove(temporary)
            raise

    def create(self, name: str, data: bytes) -> bool:
        """Write a whole file where there is none; False where there is one, which stays: the first writer wins."""
        temporary = self._write_beside(name, data, 0o600)
        try:
            os.link(self._name(temporary), self._name(name), src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except FileExistsError:
            return False
        finally:
            self.remove(temporary)
        return True

    def names(self) -> list[str]:
        """The names in it, sorted."""
        return sorted(entry.name for entry in self.path.iterdir())

    def has(self, name: str) -> bool:
        with contextlib.suppress(OSError):
            os.stat(self._name(name), dir_fd=self._descriptor, follow_symlinks=False)
            return True
        return False

    def remove(self, name: str) -> None:
        """Remove a file; without effect where there is none."""
        with contextlib.suppress(OSError):
            os.unlink(self._name(name), dir_fd=self._descriptor)

    def rename(self, name: str, new_name: str) -> None:
        os.rename(self._name(name), self._name(new_name), src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def _write_beside(self, name: str, data: bytes, mode: int) -> str:
        temporary = f".{name}.{os.getpid()}.tmp"
        self.remove(temporary)  # of a process that had this number before
        descriptor = self.open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
        except OSError:
            self.remove(temporary)
            raise
        return temporary

    def _name(self, name: str) -> str | Path:
        return name if self._descriptor is not None else self.path / name


def _walk(root: Path, names: tuple[str, ...], *, create: bool) -> Path:
    path = root
    for name in names:
        path /= name
        if create:
            path.mkdir(exist_ok=True)
        if path.is_symlink() or not path.is_dir():
            raise NotADirectoryError(f"{path} is not a directory of its own")
    return path
