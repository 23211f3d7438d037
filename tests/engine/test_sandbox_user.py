"""The suite of test_sandbox as an ordinary user, who has no capabilities to lose."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOBODY = 65534
PYTHON = Path(f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")


def why_not() -> str:
    """Why it cannot be run here, or empty."""
    if not sys.platform.startswith("linux") or os.getuid() != 0:
        return "these tests run as an ordinary user already"
    if not PYTHON.exists():
        return f"{PYTHON} is not here, and another user cannot run root's own Python"
    for path in (ROOT, Path(sysconfig.get_path("purelib"))):
        if not all(part.stat().st_mode & 0o005 == 0o005 for part in (path, *path.parents)):
            return f"another user cannot read {path}"
    return ""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of the other user's own: pytest's belong to this one."""
    folder = Path(tempfile.mkdtemp(prefix="sandbox-user-"))
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_an_ordinary_user_s_commands_do_not_escape_either(home: Path) -> None:
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")]), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    # Packages come by PYTHONPATH here, which commands do not get: the one case that needs one is left out.
    done = subprocess.run(
        [
            str(PYTHON), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not sqlite3", "--basetemp",
            str(home / "pytest"), str(ROOT / "tests" / "engine" / "test_sandbox.py"),
        ],
        cwd=home, env=environment, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout and " skipped" not in done.stdout
