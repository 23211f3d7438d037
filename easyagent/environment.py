"""The environment of child processes, built from a list of what is needed: keys and tokens never pass."""

from __future__ import annotations

import contextlib
import os
import site
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_COMMON = (
    "PATH", "HOME", "TMPDIR", "LANG", "TZ", "TERM", "USER", "LOGNAME", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV",
    "SYSTEMROOT", "PATHEXT", "COMSPEC", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
)  # fmt: skip
_AGENT = (
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "PYTHONPATH", "PYTHONHOME", "XDG_CONFIG_HOME",
)  # fmt: skip
_COMMAND = (
    "PYTHONUSERBASE", "PYENV_ROOT", "PYENV_VERSION", "R_LIBS_USER", "PIP_CONFIG_FILE", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES",
)  # fmt: skip


def _selected(names: tuple[str, ...], environ: Mapping[str, str]) -> dict[str, str]:
    chosen = {name: environ[name] for name in names if name in environ}
    chosen |= {name: value for name, value in environ.items() if name.startswith("LC_")}
    chosen.setdefault("LANG", "C.UTF-8")
    return chosen | {"PYTHONUTF8": "1"}


def agent_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """For a sub-agent's process: no key, which arrives on its stdin."""
    return _selected(_COMMON + _AGENT, environ)


def command_environment(temporary: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """For a command of a model: no key, no proxy with a password, plots without a screen, a HOME and TMPDIR of its own.

    What lies in the user's real home and is needed to run her programs is named by its variable.
    """
    own = {"HOME": str(temporary / "home"), "TMPDIR": str(temporary), "MPLBACKEND": "Agg"}
    found = {"PYTHONUSERBASE": site.getuserbase(), **_pyenv_root(environ), **git_identity()}
    return found | _selected(_COMMON + _COMMAND, environ) | own


def _pyenv_root(environ: Mapping[str, str]) -> dict[str, str]:
    root = Path(environ.get("HOME", "/")) / ".pyenv"
    return {"PYENV_ROOT": str(root)} if root.is_dir() else {}


@cache
def git_identity() -> dict[str, str]:
    """The user's name and address for commits; empty where git or they are missing."""
    found: dict[str, str] = {}
    for key in ("name", "email"):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(
                ["git", "config", "--global", f"user.{key}"], capture_output=True, text=True, timeout=5, check=True
            )
            found |= {f"GIT_{role}_{key.upper()}": done.stdout.strip() for role in ("AUTHOR", "COMMITTER")}
    return found
