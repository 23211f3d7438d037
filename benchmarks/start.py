"""How fast a sub-agent starts and what it weighs: forked, spawned, from the spare process; and a bare `import openai`.

`python benchmarks/start.py` prints one JSON object. Times are medians in seconds, from the start of a process to its
first request at the endpoint; memory is the proportional set size that one more agent adds, its keeper included, in MB.
The bars hold within one run, whatever the machine: the host at most a tenth of the import, at most 12 MB an agent.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from easyagent.models import TERMINATED
from easyagent.subagents import HostLauncher, Launcher, LocalLauncher, RunStore
from easyagent.subagents.launcher import Handle
from easyagent.testing import FakeOpenAI, hang
from easyagent.testing.bench import settings_of
from easyagent.testing.launcher_contract import make_job

ROUNDS = 7
AGENTS = 5
MOST_SHARE, MOST_MEGABYTES = 0.1, 12.0
SPARE_LOADS_SECONDS = 3.0


async def start_one(fake: FakeOpenAI, launcher: Launcher, workspace: Path, number: int) -> tuple[float, Handle]:
    """Start an agent; returns the seconds to its first request."""
    job = make_job(agent_id=number, workspace=str(workspace), deliverables_dir=f"out{number}")
    job_file = RunStore(workspace).create(job)
    before, began = len(fake.requests), time.monotonic()
    handle = await launcher.start(job, job_file, settings_of(fake))
    await asyncio.to_thread(fake.wait_for, lambda: len(fake.requests) > before)
    return fake.requests[before].arrived - began, handle


async def measure(fake: FakeOpenAI, launcher: Launcher, workspace: Path) -> list[float]:
    """Seconds to the first request of each agent after the first, which starts the host, or the spare process."""
    seconds = []
    for number in range(ROUNDS + 1):
        took, handle = await start_one(fake, launcher, workspace, number)
        await handle.terminate(TERMINATED, 0.0)
        seconds.append(took)
        if isinstance(launcher, LocalLauncher):
            await launcher.prepare(workspace)
            await asyncio.sleep(SPARE_LOADS_SECONDS)
    await launcher.aclose()
    return seconds[1:]


async def measure_spawned(fake: FakeOpenAI, workspace: Path) -> list[float]:
    seconds = []
    for number in range(ROUNDS):
        launcher = LocalLauncher()  # its first agent is a new process
        took, handle = await start_one(fake, launcher, workspace, number)
        await handle.terminate(TERMINATED, 0.0)
        await launcher.aclose()
        seconds.append(took)
    return seconds


async def weigh(fake: FakeOpenAI, launcher: HostLauncher, workspace: Path) -> float:
    """Megabytes that each agent beyond the first adds to this process, the host and all that hangs below it."""
    handles, weights = [], []
    for number in range(AGENTS + 1):
        _, handle = await start_one(fake, launcher, workspace, 20 + number)
        handles.append(handle)
        assert launcher.host_pid is not None
        host = psutil.Process(launcher.host_pid)
        weights.append(
            sum(process.memory_full_info().pss for process in [psutil.Process(), host, *host.children(recursive=True)])
        )
    await asyncio.gather(*(handle.terminate(TERMINATED, 0.0) for handle in handles))
    return (weights[-1] - weights[0]) / AGENTS / 1e6


def import_seconds() -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import openai"], check=True)
    return time.monotonic() - began


async def main() -> dict[str, object]:
    with FakeOpenAI() as fake, tempfile.TemporaryDirectory() as folder:
        fake.script("agents").repeat(hang())
        workspace, host = Path(folder), HostLauncher()
        imports = [import_seconds() for _ in range(ROUNDS)]
        forked = await measure(fake, HostLauncher(), workspace)
        spawned = await measure_spawned(fake, workspace)
        spare = await measure(fake, LocalLauncher(), workspace)
        megabytes = await weigh(fake, host, workspace)
        await host.aclose()
    bare, fork = statistics.median(imports), statistics.median(forked)
    return {
        "import_openai_seconds": round(bare, 4),
        "host_seconds": round(fork, 4),
        "plain_process_seconds": round(statistics.median(spawned), 4),
        "spare_process_seconds": round(statistics.median(spare), 4),
        "host_to_import": round(fork / bare, 3),
        "megabytes_an_agent": round(megabytes, 1),
        "holds": fork / bare <= MOST_SHARE and megabytes <= MOST_MEGABYTES,
    }


if __name__ == "__main__":
    figures = asyncio.run(main())
    print(json.dumps(figures, indent=1))
    sys.exit(not figures["holds"])
