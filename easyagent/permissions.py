"""One function gives the effective permission of an agent for a call, and the rule that decided.

A level says who is asked; deny rules of a definition hold at every level. Where nobody can answer,
what would ask is denied, at once and with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

Effect = Literal["allow", "ask", "deny"]

WRITE_TOOLS = frozenset({"write_file", "edit_file"})
_SUBJECT = {
    "run_command": "command",
    "read_file": "path",
    "write_file": "path",
    "edit_file": "path",
    "list_files": "path",
    "search_files": "path",
    "search_code": "path",
}
"""The argument that a rule's pattern is matched against."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What happens to a call and the rule that said so."""

    effect: Effect
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the user has granted on a cell's line, and in its text: real paths, and the network for commands."""

    read: tuple[Path, ...] = ()
    """Readable outside the workspace."""
    write: tuple[Path, ...] = ()
    """Writable beside the deliverables."""
    network: bool = False


@dataclass(frozen=True, slots=True)
class Grants:
    """What an agent may do without asking: its level, its definition's rules, and whether it has roots of its own."""

    level: str
    rules: Mapping[str, Any]
    owns_roots: bool
    """A sub-agent writes in its deliverables and write paths; the main agent has no root of its own."""
    confined: bool = False
    """The OS sandbox holds its commands: then they need nobody's consent."""


def decide(grants: Grants, tool: str, arguments: Mapping[str, Any], *, inside_roots: bool = False) -> Decision:
    """The effective permission for one call. `inside_roots`: the path written lies in the agent's own roots."""
    ruled = _by_rules(grants.rules.get(tool), subject_of(tool, arguments), tool)
    if ruled is not None and ruled.effect == "deny":
        return ruled
    by_level = _by_level(grants, tool, inside_roots=inside_roots)
    if ruled is not None and ruled.effect == "ask" and by_level.effect == "allow" and grants.level != "auto":
        return ruled
    return by_level


def decide_network(grants: Grants) -> Decision:
    """The network for a confined command that is not granted it: only a person can, at the levels that ask."""
    effect: Effect = "ask" if grants.level in ("ask", "edits") else "deny"
    return Decision(effect, "network for commands")


def decide_outside_read(grants: Grants) -> Decision:
    """A read outside the workspace that is not granted. A sub-agent's sandbox cannot be widened once it runs."""
    if grants.owns_roots:
        return Decision("deny", "reads outside the workspace")
    effects: dict[str, Effect] = {"auto": "allow", "read-only": "deny"}
    return Decision(effects.get(grants.level, "ask"), "reads outside the workspace")


def subject_of(tool: str, arguments: Mapping[str, Any]) -> str:
    """What a call is about, for rules and for people."""
    return str(arguments.get(_SUBJECT.get(tool, ""), ""))


def _by_rules(rules: Any, subject: str, tool: str) -> Decision | None:
    """Deny anywhere wins; else the first pattern in written order that matches."""
    if isinstance(rules, str):
        rules = {"*": rules}
    if not isinstance(rules, Mapping):
        return None
    matching = [(pattern, effect) for pattern, effect in rules.items() if fnmatchcase(subject, pattern)]
    for pattern, effect in sorted(matching, key=lambda rule: rule[1] != "deny"):
        if effect in ("allow", "ask", "deny"):
            return Decision(effect, f"permissions.{tool}[{pattern!r}] = {effect}")
    return None


def _by_level(grants: Grants, tool: str, *, inside_roots: bool) -> Decision:
    rule = f"permission level {grants.level}"
    if tool == "run_command":
        unconfined: Effect = "allow" if grants.confined else "ask"
        effect: Effect = {"auto": "allow", "read-only": "deny"}.get(grants.level, unconfined)  # type: ignore[assignment]
        return Decision(effect, rule)
    if tool in WRITE_TOOLS:
        if grants.owns_roots:
            return Decision("allow" if inside_roots else "deny", "a sub-agent writes only in its own directories")
        if inside_roots and grants.level != "read-only":
            return Decision("allow", "granted with --write")
        level_effect: Effect = {"edits": "allow", "auto": "allow", "read-only": "deny"}.get(grants.level, "ask")  # type: ignore[assignment]
        return Decision(level_effect, rule)
    return Decision("allow", rule)


def refusal(decision: Decision, tool: str) -> str:
    """The sentence a model and a user read where a call is not allowed: the reason and what would allow it."""
    if decision.rule == "network for commands":
        return (
            "run_command with network is denied: commands have no network. The user can grant it with --net; go on "
            "without network=true."
        )
    if decision.rule == "reads outside the workspace":
        return (
            f"{tool} is denied: the path lies outside the workspace; only paths inside the workspace can be used. "
            "The user can grant it with --read PATH."
        )
    if tool == "run_command" and decision.rule.startswith("permission level"):
        return (
            f"run_command is denied ({decision.rule}): no sandbox holds commands here. "
            "The user can allow commands with --permissions auto; go on with the file tools."
        )
    if tool in WRITE_TOOLS and decision.rule.startswith("permission level"):
        return (
            f"{tool} is denied ({decision.rule}): the main agent's writes need the user's consent. "
            "The user can allow them with --permissions edits; a sub-agent may write in its own deliverables directory."
        )
    if tool in WRITE_TOOLS:
        return f"{tool} is denied: {decision.rule}. Write in the deliverables directory instead."
    return f"{tool} is denied by {decision.rule}."
