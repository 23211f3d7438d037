"""Settings with their precedence, and the definitions of agents."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from easyagent.agent_registry import AgentRegistry, get_agent_registry
from easyagent.config import MAX_SETTINGS_BYTES, OPENAI_BASE_URL, AgentConfig, resolve_config, without_password
from easyagent.endpoint import Endpoints
from easyagent.exceptions import ConfigError, ModelError
from easyagent.models import AgentDefinition

URL = "http://127.0.0.1:1/v1"


def resolve(tmp_path: Path, toml: str = "", environ: dict[str, str] | None = None, **layers: Any) -> AgentConfig:
    file = tmp_path / "config.toml"
    file.write_text(toml)
    return resolve_config(environ=environ or {}, config_file=file, **layers)


def test_the_first_layer_that_names_a_setting_wins(tmp_path: Path) -> None:
    toml = 'model = "file"\nmax_concurrent = 2\nlanguage = "zh"\n'
    environ = {"EASYAGENT_MODEL": "environment", "EASYAGENT_MAX_CONCURRENT": "3", "EASYAGENT_LANGUAGE": " "}
    for layers, model, source in (
        ({}, "environment", "the environment"),
        ({"session": {"model": "session"}}, "session", "%agent config"),
        ({"session": {"model": "session"}, "overrides": {"model": "cell"}}, "cell", "the cell"),
        ({"overrides": {"model": None}}, "environment", "the environment"),
    ):
        config = resolve(tmp_path, toml, environ, **layers)
        assert (config.model, config.sources["model"]) == (model, source)
        assert (config.max_concurrent, config.language) == (3, "zh")
        assert config.sources["language"] == str(tmp_path / "config.toml")
    nothing = resolve_config(environ={}, config_file=tmp_path / "none.toml")
    assert (nothing.is_demo, dict(nothing.sources)) == (True, {})


def test_a_key_goes_only_to_the_url_of_its_own_source(tmp_path: Path) -> None:
    key = {"OPENAI_API_KEY": "sk-1"}
    at_home = resolve(tmp_path, environ={**key, "OPENAI_BASE_URL": URL})
    assert at_home.api_key is not None and at_home.api_key.get_secret_value() == "sk-1" and "sk-1" not in repr(at_home)
    assert resolve(tmp_path, environ=key, overrides={"base_url": URL}).api_key is None
    assert resolve(tmp_path, f'base_url = "{URL}"\n', key).api_key is None
    alone = resolve(tmp_path, environ=key)
    assert (alone.base_url, alone.api_key is not None) == (OPENAI_BASE_URL, True)


WRONG: list[tuple[str, dict[str, str], dict[str, Any], str]] = [
    ("", {"EASYAGENT_MAX_CONCURRENT": "many"}, {}, "max_concurrent from the environment"),
    ("", {}, {"max_concurrent": 100}, "max_concurrent from the cell"),
    ("timeout_seconds = 59", {}, {}, "timeout_seconds from "),
    ("", {"EASYAGENT_PERMISSIONS": "all"}, {}, "permissions from the environment"),
    ("", {}, {"base_url": "localhost:11434/v1"}, "base_url from the cell"),
    ("colour = 1", {}, {}, "unknown setting colour"),
    ('workspace = "/"', {}, {}, "unknown setting workspace"),
    ("model = ", {}, {}, "cannot be read"),
]


@pytest.mark.parametrize(("toml", "environ", "cell", "part"), WRONG)
def test_a_wrong_setting_names_itself_and_its_source(
    tmp_path: Path, toml: str, environ: dict[str, str], cell: dict[str, Any], part: str
) -> None:
    with pytest.raises(ConfigError, match=part) as caught:
        resolve(tmp_path, toml, environ, overrides=cell)
    assert "\n" not in str(caught.value).rstrip()


def write(path: Path, agents: Any) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(agents if isinstance(agents, str) else json.dumps({"agents": agents}))
    return str(path)


FAULTY: list[tuple[Any, str]] = [
    ("{", "is not valid JSON"),
    ("[]", 'the key "agents" must hold an object'),
    ({"a": {"mode": "queen"}}, "agent 'a', key 'mode'"),
    ({"a": {"colour": 1}}, "agent 'a', key 'colour'"),
    ({"a": {"allowed_tools": "read_file"}}, "agent 'a', key 'allowed_tools'"),
    ({"a": {"name": "b"}}, "agent 'a' names itself 'b'"),
    ({"a": 3}, "agent 'a' must be an object"),
]


@pytest.mark.parametrize(("agents", "part"), FAULTY)
def test_a_faulty_definition_file_names_file_agent_and_key_and_registers_nothing(
    tmp_path: Path, agents: Any, part: str
) -> None:
    registry = AgentRegistry()
    good = {"good": {}, **agents} if isinstance(agents, dict) else agents
    path = write(tmp_path / "agents.json", good)
    with pytest.raises(ConfigError) as caught:
        registry.load_from_config(path)
    assert str(caught.value).startswith(path) and part in str(caught.value)
    assert registry.list_subagents() == []
    with pytest.raises(ConfigError, match="cannot be read"):
        registry.load_from_config(str(tmp_path / "none.json"))


def test_the_workspaces_definitions_override_the_presets_and_the_users_override_both(tmp_path: Path) -> None:
    registry = get_agent_registry()
    assert registry is get_agent_registry()
    write(tmp_path / "subagents" / "custom.json", {"explore": {"description": "ours"}, "boss": {"mode": "primary"}})
    own = AgentRegistry()
    own.register(AgentDefinition("mine", "by position", "subagent"))
    merged = own.for_workspace(tmp_path)
    assert [agent.name for agent in merged.list_subagents()] == ["analyst", "explore", "general", "mine"]
    explore, boss = merged.get("explore"), merged.get("boss")
    assert explore is not None and (explore.description, explore.mode) == ("ours", "all")
    assert boss is not None and boss.mode == "primary" and merged.get("nobody") is None
    own.register(AgentDefinition("explore", "the user's"))
    again = own.for_workspace(tmp_path).get("explore")
    assert again is not None and again.description == "the user's"
    unchanged = registry.get("explore")
    assert unchanged is not None and unchanged.max_iterations == 15


def test_a_model_without_a_key_is_refused_before_anything_is_sent() -> None:
    async def settings() -> None:
        await Endpoints().settings(resolve_config({"model": "gpt-x"}, environ={}, config_file=Path("/none.toml")))

    with pytest.raises(ModelError, match="No key is set for"):
        asyncio.run(settings())


def spoil(path: Path, how: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if how == "a pipe":
        os.mkfifo(path)
    elif how == "a device":
        path.symlink_to("/dev/zero")
    elif how == "a directory":
        path.mkdir()
    elif how == "too large":
        path.write_text("#" + " " * MAX_SETTINGS_BYTES)
    elif how == "nested without end":
        path.write_text("a = " * (path.suffix == ".toml") + "[" * 100_000)
    else:
        path.write_bytes(b"caf\xe9")


@pytest.mark.parametrize("how", ["a pipe", "a device", "a directory", "too large", "nested without end", "not UTF-8"])
def test_a_settings_file_that_is_none_is_told_at_once(tmp_path: Path, how: str) -> None:
    custom, settings = tmp_path / "subagents" / "custom.json", tmp_path / "config.toml"
    spoil(custom, how)
    spoil(settings, how)
    with pytest.raises(ConfigError) as caught:
        AgentRegistry().for_workspace(tmp_path)
    assert str(caught.value).startswith(str(custom)) and "\n" not in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        resolve_config(environ={}, config_file=settings)
    assert str(caught.value).startswith(str(settings)) and "\n" not in str(caught.value)


def test_settings_files_may_be_links_and_of_fair_size(tmp_path: Path) -> None:
    write(tmp_path / "mine.json", {"mine": {"description": "d" * (MAX_SETTINGS_BYTES // 2)}})
    (tmp_path / "subagents").mkdir()
    (tmp_path / "subagents" / "custom.json").symlink_to(tmp_path / "mine.json")
    assert AgentRegistry().for_workspace(tmp_path).get("mine") is not None
    (tmp_path / "real.toml").write_text('model = "m"\r\n', newline="")
    (tmp_path / "config.toml").symlink_to("real.toml")
    assert resolve_config(environ={}, config_file=tmp_path / "config.toml").model == "m"


ADDRESSES = {
    "http://[::1": False, "http://h:abc/v1": False, "http://h:99999/v1": False, "http://:80/v1": False,
    "http://u:p@/v1": False, "ftp://h/v1": False, "http://[::1]:80/v1": True, "http://u:p@h:80/v1": True,
}  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_one_or_the_setting_is_wrong(tmp_path: Path, address: str) -> None:
    if ADDRESSES[address]:
        assert resolve(tmp_path, overrides={"base_url": address}).base_url == address
        return
    with pytest.raises(ConfigError, match=r"^The setting base_url from the cell is wrong: "):
        resolve(tmp_path, overrides={"base_url": address})


def test_a_password_in_an_address_is_not_shown() -> None:
    assert without_password("https://me:s3cret@h:1/v1") == "https://***@h:1/v1"
    assert without_password("https://me:s3@cret@h:1/v1?a=b") == "https://***@h:1/v1?a=b"
    assert (without_password(URL), without_password(None)) == (URL, None)
