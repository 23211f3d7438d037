"""Two kernels in one workspace: what one's sub-agent writes, another's may not, and a dead kernel holds nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from easyagent.exceptions import SubAgentError
from easyagent.subagents import RunStore
from easyagent.subagents.claims import Claim, Claims, Conflict
from easyagent.testing import FakeOpenAI, hang
from easyagent.testing.bench import manager_bench
from easyagent.tools.base import SubAgentRequest

HOLDER = """
import os, sys, time
from pathlib import Path
from easyagent.subagents import RunStore
from easyagent.subagents.claims import Claim, Claims
workspace, path = Path(sys.argv[1]), sys.argv[2]
claims = Claims(RunStore(workspace))
paths = (str(workspace / path),)
claims.take(Claim(run_id="conv_other", agent_id=7, summary="Plots", notebook="other.ipynb", paths=paths))
child = os.fork()
if child == 0:
    time.sleep(600)
print(child, flush=True)
for line in sys.stdin:
    if line == "release\\n":
        claims.release("conv_other")
    print("done", flush=True)
"""


@contextmanager
def holder(workspace: Path, path: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that claims a path, and has forked a child that lives on."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(workspace), path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    child = psutil.Process(json.loads(process.stdout.readline()))
    try:
        yield process
        assert child.is_running()
    finally:
        process.kill()
        child.kill()
        process.communicate()


def claim(workspace: Path, path: str) -> Claim:
    return Claim(
        run_id=f"conv_{path.replace('/', '_')}", agent_id=1, summary="Own", notebook="", paths=(str(workspace / path),)
    )


@pytest.mark.parametrize("path", ["out", "out/deeper", "."])
def test_another_process_names_itself_and_holds_until_it_ends(tmp_path: Path, path: str) -> None:
    own = Claims(RunStore(tmp_path))
    with holder(tmp_path, "out") as process:
        with pytest.raises(Conflict) as caught:
            own.take(claim(tmp_path, path))
        said = caught.value.claim.holder
        assert said.startswith("sub-agent 7 (Plots) of another conversation (notebook other.ipynb, process ")
        assert str(process.pid) in said
        own.take(claim(tmp_path, "beside"))  # the control: another directory is free
        process.kill()
        process.wait()
        own.take(claim(tmp_path, "out"))  # though the child it had forked lives


def test_what_is_released_is_free_again(tmp_path: Path) -> None:
    own = Claims(RunStore(tmp_path))
    with holder(tmp_path, "out") as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("release\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"
        own.take(claim(tmp_path, "out"))
    with pytest.raises(Conflict):
        own.take(claim(tmp_path, "out/deeper"))  # in one process too, whichever conversation asks
    own.release("conv_out")
    own.take(claim(tmp_path, "out/deeper"))


def test_a_claim_that_cannot_be_read_hinders_nobody(tmp_path: Path) -> None:
    folder = tmp_path / ".subagents" / "claims"
    folder.mkdir(parents=True)
    (folder / "broken.json").write_text("{")
    (folder / "linked.json").symlink_to(tmp_path)
    (folder / "folder.json").mkdir()
    Claims(RunStore(tmp_path)).take(claim(tmp_path, "out"))


def test_the_main_agent_is_told_who_is_in_the_way(tmp_path: Path) -> None:
    request = SubAgentRequest(agent_id=1, summary="Count", task="Count.", deliverables_dir="out/mine")

    async def main(fake: FakeOpenAI) -> None:
        async with manager_bench(fake, tmp_path.resolve()) as bench:
            with holder(tmp_path.resolve(), "out"), pytest.raises(SubAgentError) as caught:
                await bench.manager.start(request)
            assert caught.value.code == "directory_conflict"
            assert "'out/mine' overlaps 'out', where sub-agent 7 (Plots)" in str(caught.value)
            assert bench.manager.runs == {} and bench.events == []
            run = await bench.manager.start(request)  # the control
            await bench.manager.stop(run)
            await bench.manager.start(replace(request, agent_id=2))  # free again

    with FakeOpenAI() as fake:
        fake.script("agents").repeat(hang())
        asyncio.run(main(fake))
