"""`python -m easyagent.demo` as a process: settings in, address out, gone with its stdin."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest

from easyagent.demo import DEMO_MODEL_ID, DemoAddress, DemoSettings

COMMAND = [sys.executable, "-m", "easyagent.demo"]


@contextmanager
def demo(settings: DemoSettings) -> Iterator[tuple[Any, DemoAddress]]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(COMMAND, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            process.stdin.write(settings.model_dump_json() + "\n")
            process.stdin.flush()
            yield process, DemoAddress.model_validate_json(process.stdout.readline())
        finally:
            process.kill()


def tools(*names: str) -> list[dict[str, object]]:
    return [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in names]


def test_it_serves_an_openai_client_and_ends_with_its_stdin() -> None:
    with demo(DemoSettings(token="secret", pace_seconds=0)) as (process, address):
        assert (address.model, DEMO_MODEL_ID) == (DEMO_MODEL_ID, "demo-rules-not-a-language-model")
        with openai.OpenAI(base_url=address.base_url, api_key="secret", max_retries=0) as client:
            assert [model.id for model in client.models.list()] == [DEMO_MODEL_ID]
            reply = client.chat.completions.create(
                model=address.model,
                messages=[{"role": "user", "content": "- Count a.csv\n- Count b.csv"}],
                tools=tools("create_sub_agent"),  # type: ignore[arg-type]
            )
            calls = reply.choices[0].message.tool_calls or []
            assert [json.loads(call.function.arguments)["agent_id"] for call in calls] == [1, 2]  # type: ignore[union-attr]
            stream = client.chat.completions.create(
                model=address.model, messages=[{"role": "user", "content": "你好"}], stream=True
            )
            text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
            assert text.startswith("*演示模型（规则程序，不是语言模型）。*")
        process.stdin.close()
        assert process.wait(30) == 0 and process.stderr.read() == ""


def test_a_wrong_token_is_refused() -> None:
    with (
        demo(DemoSettings(token="secret")) as (_, address),
        openai.OpenAI(base_url=address.base_url, api_key="guess", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.models.list()


def test_sigterm_ends_it_and_an_interrupt_does_not() -> None:
    with demo(DemoSettings()) as (process, address):
        process.send_signal(signal.SIGINT)
        with openai.OpenAI(base_url=address.base_url, api_key="any", max_retries=0) as client:
            assert [model.id for model in client.models.list()] == [DEMO_MODEL_ID]
        process.terminate()
        assert process.wait(30) == 0 and process.stderr.read() == ""


@pytest.mark.parametrize("line", ["", "no json\n", '{"pace_seconds": -1}\n', '{"key": 1}\n'])
def test_wrong_settings_are_one_error_and_no_server(line: str) -> None:
    done = subprocess.run(COMMAND, input=line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == "" and "settings" in done.stderr


def test_it_does_not_load_the_openai_client() -> None:
    code = "import sys, easyagent.demo.__main__; print('openai' in sys.modules, 'pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "True"]
