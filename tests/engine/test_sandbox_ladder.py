"""The sandbox of older kernels: with no more than their Landlock every attempt of the probe still fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from easyagent.sandbox.landlock import version
from easyagent.sandbox.probe import probe
from easyagent.sandbox.seccomp import supported

pytestmark = pytest.mark.skipif(
    not (version() and supported()), reason="this system has no Landlock: there is no ladder to try"
)

EMPTY_IT = """
import os, sys
from easyagent.sandbox import landlock, seccomp
directory, file, filtered = sys.argv[1:]
landlock.restrict(["/", directory], ["/dev/null"], [], network=False, most=1)
seccomp.install(network=False, truncation=filtered != "filtered")
for attempt in (lambda: os.truncate(file, 0), lambda: os.close(os.open(file, os.O_RDONLY | os.O_TRUNC))):
    try:
        attempt()
    except PermissionError:
        pass
"""


@pytest.mark.parametrize("most", [1, 2, 3, 5, None])
def test_every_rung_holds(most: int | None) -> None:
    found = probe(most)

    assert found.confined, found.reason
    assert f"Landlock {min(version(), most or version())} and seccomp" in found.reason


def test_a_kernel_that_cannot_keep_signals_in_says_so() -> None:
    assert "signalling" in probe(1).reason


@pytest.mark.skipif(version() < 6, reason="this kernel's Landlock does not keep signals in")
def test_a_kernel_that_keeps_signals_in_has_no_such_gap() -> None:
    assert "signalling" not in probe().reason


@pytest.mark.parametrize(("filtered", "left"), [("filtered", "to be read"), ("unfiltered", "")])
def test_before_landlock_3_seccomp_holds_truncation(tmp_path: Path, filtered: str, left: str) -> None:
    """The control: without that part of the filter the old Landlock lets a file that may only be read be emptied."""
    file = tmp_path / "file"
    file.write_text("to be read")

    subprocess.run([sys.executable, "-c", EMPTY_IT, str(tmp_path), str(file), filtered], check=True, timeout=60)

    assert file.read_text() == left
