"""A process in a kernel's place, for tests that stop, freeze or kill it: starts sub-agents, then does what it is told.

`kernel_stand_in.py BASE_URL WORKSPACE COUNT TIMEOUT_SECONDS` prints one JSON line when the agents run: their pids by
run id, the host's pid, and why there is none. Then it reads one line: `hold the GIL`, or `fork` (prints its pid).
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import sys
import time
from pathlib import Path

from pydantic import SecretStr

from easyagent.agent_registry import get_agent_registry
from easyagent.models import ModelSettings
from easyagent.sandbox import enforcement
from easyagent.subagents import HostLauncher, SubAgentManager
from easyagent.subagents.reservations import Scope
from easyagent.testing.bench import deny
from easyagent.tools.base import SubAgentRequest


async def main(base_url: str, workspace: str, count: int, timeout_seconds: float) -> None:
    launcher = HostLauncher()
    scope = Scope(
        conversation_id="main_1",
        label="main",
        workspace=Path(workspace),
        settings=ModelSettings(base_url=base_url, api_key=SecretStr("stand-in"), name="fake-model"),
        registry=get_agent_registry(),
        language="en",
        permissions="auto",
        max_concurrent=99,
        timeout_seconds=timeout_seconds,
        confined=enforcement().confined,
    )
    manager = SubAgentManager(scope, emit=lambda event: None, notify=lambda notice: None, launcher=launcher, ask=deny)
    runs = []
    for number in range(1, count + 1):
        request = SubAgentRequest(agent_id=number, summary="Count", task="Count.", run_in_background=True)
        runs.append(await manager.start(request))
    pids = {run.run_id: run.handle.pid for run in runs if run.handle is not None}
    print(json.dumps({"runs": pids, "host": launcher.host_pid, "note": launcher.note}), flush=True)
    match (await asyncio.to_thread(sys.stdin.readline)).strip():
        case "hold the GIL":
            ctypes.PyDLL(None).sleep(600)  # C code that keeps every other thread of this process from running
        case "fork":
            child = os.fork()  # it holds all that this process has open, for ever
            if child == 0:
                time.sleep(600)
                os._exit(0)
            print(json.dumps(child), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
