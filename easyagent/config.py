"""AgentConfig: every setting in one typed class, and where each value came from.

Precedence, first wins: the call itself, the session's settings, the environment, the user's
`~/.config/easyagent/config.toml`, the embedded demo model. A key is only ever sent to the base URL of
its own source. Nothing in a workspace sets any of these.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from easyagent.exceptions import ConfigError

OPENAI_BASE_URL = "https://api.openai.com/v1"
MAX_SETTINGS_BYTES = 1_000_000
PERMISSION_LEVELS = ("ask", "edits", "auto", "read-only")

_ENVIRONMENT = {
    "OPENAI_API_KEY": "api_key",
    "OPENAI_BASE_URL": "base_url",
    "EASYAGENT_MODEL": "model",
    "EASYAGENT_LANGUAGE": "language",
    "EASYAGENT_MAX_CONCURRENT": "max_concurrent",
    "EASYAGENT_PERMISSIONS": "permissions",
}


class AgentConfig(BaseModel):
    """The settings of a run. Wrong values raise ConfigError from `resolve_config`, ValidationError here."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: Annotated[str, Field(pattern=r"^https?://[^/\s]+")] | None = None
    """Root of an OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1; None is the embedded demo model."""
    api_key: SecretStr | None = None
    """Bearer key for `base_url`; keyless endpoints need none."""
    model: str | None = None
    """Model id; None takes the only one the endpoint lists."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Sampling temperature; None leaves it to the endpoint."""
    max_iterations: Annotated[int, Field(ge=1)] | None = 100
    """Turns of the main agent in one round."""
    language: Literal["auto", "zh", "en"] = "auto"
    """Language of prompts and messages; auto follows the task's text."""
    max_concurrent: Annotated[int, Field(ge=1, le=99)] = 5
    """Sub-agents that may live at once."""
    max_auto_rounds: Annotated[int, Field(ge=0)] = 5
    """Rounds that may start from notices before the user is asked to continue."""
    timeout_seconds: Annotated[int, Field(ge=60, le=3600)] = 600
    """Time limit of a sub-agent that names none."""
    permissions: Literal["ask", "edits", "auto", "read-only"] = "ask"
    """Who is asked before an action; see docs/permissions.md."""
    workspace: Path | None = None
    """Directory that agents work in; None is the current directory."""
    sources: Mapping[str, str] = Field(default_factory=dict)
    """Where each value that is not a default came from."""

    @field_validator("base_url")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        try:
            parts = urlsplit(value or "http://none")
            named = bool(parts.hostname) and parts.port != 0  # either may refuse what it reads
        except ValueError:
            named = False
        if not named:
            raise PydanticCustomError("address", "it is not the address of an endpoint")
        return value

    @property
    def is_demo(self) -> bool:
        """True where no endpoint is configured and the embedded demo model answers."""
        return self.base_url is None


def working_directory() -> Path:
    """The current directory. Raises ConfigError where agents could not work there."""
    try:
        return usable_directory(Path.cwd().resolve())
    except OSError as error:
        raise ConfigError(f"The working directory cannot be used: {error.strerror or error}; change to one.") from error


def usable_directory(path: Path) -> Path:
    """The path itself. Raises ConfigError where its name is no text, which no record and no message could hold."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        shown = str(path).encode("utf-8", "replace").decode()
        raise ConfigError(f"The name of the directory {shown} is not UTF-8; work in one whose name is.") from None
    return path


def user_config_path(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's settings file, below XDG_CONFIG_HOME where that is set."""
    root = environ.get("XDG_CONFIG_HOME")
    return (Path(root) if root else Path.home() / ".config") / "easyagent" / "config.toml"


def without_password(base_url: str | None) -> str | None:
    """An address to show: what stands before its host is a name and a password."""
    if base_url is None or "@" not in base_url:
        return base_url
    scheme, _, rest = base_url.partition("://")
    return f"{scheme}://***@{rest.rpartition('@')[2]}"


def read_settings(path: Path) -> str:
    """The text of a settings file. Raises OSError or UnicodeDecodeError; a pipe or a device is not waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is not a regular file")
        data = file.read(MAX_SETTINGS_BYTES + 1)
    if len(data) > MAX_SETTINGS_BYTES:
        raise OSError(f"it is larger than {MAX_SETTINGS_BYTES:,} bytes")
    return data.decode("utf-8")


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    return {field: environ[name] for name, field in _ENVIRONMENT.items() if environ.get(name, "").strip()}


def _from_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(read_settings(path).replace("\r\n", "\n"))
    except FileNotFoundError:
        return {}
    except RecursionError:
        raise ConfigError(f"{path} cannot be read: it is nested too deep.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error
    unknown = sorted(set(values) - set(AgentConfig.model_fields) | {"sources", "workspace"} & set(values))
    if unknown:
        raise ConfigError(f"{path}: unknown setting {', '.join(unknown)}.")
    return values


def resolve_config(
    overrides: Mapping[str, Any] | None = None,
    session: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    config_file: Path | None = None,
) -> AgentConfig:
    """Merge the layers into one AgentConfig.

    Raises ConfigError, naming the source and the setting, where a value is wrong.
    """
    file = config_file or user_config_path(environ)
    layers = [
        ("the cell", dict(overrides or {})),
        ("%agent config", dict(session or {})),
        ("the environment", _from_environment(environ)),
        (str(file), _from_file(file)),
    ]
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, layer in layers:
        for name, value in layer.items():
            if value is not None and name not in values:
                values[name], sources[name] = value, source
    _keep_key_with_its_url(values, sources)
    if "base_url" not in values and ("model" in values or "api_key" in values):
        values["base_url"], sources["base_url"] = OPENAI_BASE_URL, "the default of openai"
    try:
        return AgentConfig(**values, sources=sources)
    except ValidationError as error:
        raise ConfigError(_first_fault(error, sources)) from error


def _keep_key_with_its_url(values: dict[str, Any], sources: dict[str, str]) -> None:
    """A key goes only to the base URL of its own source: a cell that names an endpoint does not get another's key."""
    url_source = sources.get("base_url")
    if "api_key" in values and url_source is not None and sources["api_key"] != url_source:
        del values["api_key"], sources["api_key"]


def _first_fault(error: ValidationError, sources: Mapping[str, str]) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    name = str(fault["loc"][0]) if fault["loc"] else "settings"
    where = sources.get(name, "the call")
    return f"The setting {name} from {where} is wrong: {fault['msg']}."
