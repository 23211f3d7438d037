"""The environment of child processes, built from a list of what is needed: keys and tokens never pass."""

from __future__ import annotations

import os
from collections.abc import Mapping

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


def command_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """For a command of a model: no key, no proxy with a password, plots without a screen."""
    return _selected(_COMMON + _COMMAND, environ) | {"MPLBACKEND": "Agg"}
