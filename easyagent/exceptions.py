"""The errors this package raises.

    EasyAgentError
    ├── ConfigError            a setting, definition file or command-line value is wrong
    ├── ModelError             the endpoint could not answer; the message is one sentence for a person
    │   └── ContextTooLong     the conversation no longer fits the model's window
    ├── ToolError              a tool call could not be carried out; the message advises the model
    └── SubAgentError          a sub-agent was not started or not found; carries an error code

Each message is one sentence that says what to do. Developers see them raised; the notebook prints
the sentence, and a model gets it as the result of its call.
"""

from __future__ import annotations

from easyagent.plain_text import one_line


class EasyAgentError(Exception):
    """Base of all errors that easyagent raises on purpose."""


class ConfigError(EasyAgentError):
    """A setting or a definition file is wrong; names the file and the key."""


class ModelError(EasyAgentError):
    """The model endpoint refused or failed; `status` is the HTTP status where there was one."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(one_line(message))  # it quotes the endpoint
        self.status = status


class ContextTooLong(ModelError):
    """The endpoint says that the conversation is longer than the model's window."""


class ToolError(EasyAgentError):
    """A tool call that cannot be carried out, in words that tell the model what to do instead."""


class SubAgentError(EasyAgentError):
    """A sub-agent could not be started or addressed.

    `code` is one of `invalid_argument`, `agent_id_in_use`, `limit_reached`, `directory_conflict`,
    `unknown_subagent_type`, `spawn_failed`, `budget_exhausted`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
