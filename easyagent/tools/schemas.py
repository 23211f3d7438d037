"""Schemas of structured results: what can be asked for at all, and whether a result is what was asked for."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from easyagent.exceptions import ToolError

CHECK_SECONDS = 10.0
_WORKER = Path(__file__).with_name("schema_worker.py")
_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
"""What applies to the same value as the schema it stands in."""


def schema_fault(schema: dict[str, Any]) -> str | None:
    """Why no result could be checked against a schema, in words that follow its name; None where one can.

    Such a schema would keep the sub-agent from ever finishing.
    """
    import jsonschema  # heavy, and only few tasks ask for a structured result

    if not isinstance(schema.get("$schema", ""), str):
        return "has a $schema that is no text"
    try:
        jsonschema.validators.validator_for(schema).check_schema(schema)
        return _reference_fault(schema)
    except jsonschema.SchemaError as error:
        return f"is not a valid JSON Schema: {error.message}"
    except RecursionError:
        return "is nested too deep"
    except Exception as error:  # the package meets what its authors did not think of
        return f"cannot be used: {type(error).__name__}: {error}"


def _reference_fault(schema: dict[str, Any]) -> str | None:
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012, specification_with

    specification = specification_with(schema.get("$schema", ""), default=DRAFT202012)
    root = specification.create_resource(schema)
    resolver = Registry().with_resource("", root).resolver_with_root(root)
    waiting: list[Any] = [(root, resolver)]
    edges: dict[int, list[int]] = {}
    while waiting:
        resource, resolver = waiting.pop()
        contents = resource.contents
        if not isinstance(contents, dict) or id(contents) in edges:
            continue
        edges[id(contents)] = list(_applied(contents))
        for name in ("$ref", "$dynamicRef"):
            if isinstance(reference := contents.get(name), str):
                if not reference.startswith("#"):
                    return f"refers to {reference!r}; only '#...' can be used"
                try:
                    found = resolver.lookup(reference)
                except Unresolvable:
                    return f"refers to {reference!r}, which it does not hold"
                edges[id(contents)].append(id(found.contents))
                waiting.append((specification.create_resource(found.contents), found.resolver))
        waiting += [(below, resolver.in_subresource(below)) for below in resource.subresources()]
    return "refers to itself without end" if _has_cycle(edges) else None


def _applied(contents: dict[str, Any]) -> list[int]:
    """The ids of the schemas that apply to the same value."""
    found: list[int] = []
    for keyword in _IN_PLACE:
        value = contents.get(keyword)
        if keyword == "dependentSchemas" and isinstance(value, dict):
            value = list(value.values())
        found += [id(entry) for entry in (value if isinstance(value, list) else [value]) if isinstance(entry, dict)]
    return found


def _has_cycle(edges: dict[int, list[int]]) -> bool:
    """Leaves are taken away until none is left; what then remains goes round in circles."""
    left = {node: {target for target in targets if target in edges} for node, targets in edges.items()}
    while leaves := {node for node, targets in left.items() if not targets}:
        left = {node: targets - leaves for node, targets in left.items() if node not in leaves}
    return bool(left)


async def check_result(result: Any, schema: dict[str, Any]) -> None:
    """Raises ToolError with the first faults where a result is not what the schema asks for.

    In a process of its own: a pattern can run for ever, and holds the interpreter's lock.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", str(_WORKER), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            output, _ = await process.communicate(json.dumps({"schema": schema, "result": result}).encode())
    except TimeoutError:
        raise ToolError(
            f"checking result against the schema took more than {CHECK_SECONDS:.0f} seconds: a pattern in it is too "
            "slow for this text. Give another text and call finish_task again."
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ToolError("result could not be checked against the schema; simplify it and call finish_task again.")
    faults = json.loads(output)
    if faults:
        raise ToolError(
            f"result does not match the schema: {'; '.join(faults)}. Correct it and call finish_task again."
        )
