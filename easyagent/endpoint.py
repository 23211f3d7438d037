"""The endpoint of a configuration: a real one with its model chosen, or the embedded demo model as a process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sys

from pydantic import SecretStr

from easyagent.config import OPENAI_BASE_URL, AgentConfig
from easyagent.environment import agent_environment
from easyagent.exceptions import ModelError
from easyagent.llm import EndpointModel, choose_model
from easyagent.models import ModelSettings

DEMO_START_SECONDS = 60.0
DEMO_END_SECONDS = 5.0


class DemoServer:
    """The embedded demo model: `python -m easyagent.demo`, started by name and ended by closing its stdin."""

    def __init__(self, process: asyncio.subprocess.Process, settings: ModelSettings) -> None:
        self._process, self.settings = process, settings

    @classmethod
    async def start(cls) -> DemoServer:
        """Start it on a free port of the loopback interface. Raises ModelError where it does not come up."""
        token = secrets.token_urlsafe(16)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "easyagent.demo",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env=agent_environment(), start_new_session=True,
        )  # fmt: skip
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        pace = float(os.environ.get("EASYAGENT_DEMO_PACE", "0.25"))
        process.stdin.write(json.dumps({"token": token, "pace_seconds": pace}).encode() + b"\n")
        line = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DEMO_START_SECONDS):
                line = await process.stdout.readline()
        if not line:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            errors = (await process.stderr.read()).decode("utf-8", "replace").strip().splitlines()
            await process.wait()
            raise ModelError(f"The embedded demo model did not start: {errors[-1] if errors else 'no answer'}.")
        said = json.loads(line)
        key = SecretStr(token)
        return cls(process, ModelSettings(base_url=said["base_url"], api_key=key, name=said["model"], demo=True))

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def aclose(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(DEMO_END_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


class Endpoints:
    """Gives each configuration its model settings; starts one demo model at most and owns it."""

    def __init__(self) -> None:
        self._demo: DemoServer | None = None
        self._starting = asyncio.Lock()
        self._chosen: dict[tuple[str, str | None], str] = {}

    async def settings(self, config: AgentConfig) -> ModelSettings:
        """The endpoint and model to use now. Raises ModelError, one sentence, where no model can be chosen."""
        if config.base_url is None:
            async with self._starting:
                if self._demo is None or not self._demo.alive:
                    self._demo = await DemoServer.start()
            return self._demo.settings
        if config.base_url == OPENAI_BASE_URL and config.api_key is None:
            raise ModelError(
                f"No key is set for {OPENAI_BASE_URL}: set OPENAI_API_KEY, name another endpoint with OPENAI_BASE_URL "
                "or --base-url, or run %agent setup."
            )
        key = config.api_key.get_secret_value() if config.api_key else None
        asked = (config.base_url, config.model)
        if asked not in self._chosen:
            self._chosen[asked] = await choose_model(config.base_url, key, config.model)
        return ModelSettings(
            base_url=config.base_url,
            api_key=config.api_key,
            name=self._chosen[asked],
            temperature=config.temperature,
        )

    async def aclose(self) -> None:
        if self._demo is not None:
            await self._demo.aclose()
            self._demo = None


def open_model(settings: ModelSettings) -> EndpointModel:
    """A client for the settings."""
    key = settings.api_key.get_secret_value() if settings.api_key else None
    return EndpointModel(
        base_url=settings.base_url,
        api_key=key,
        name=settings.name,
        temperature=settings.temperature,
        demo=settings.demo,
    )
