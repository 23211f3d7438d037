"""Checks a result against a schema: one JSON request on stdin, the first faults as JSON on stdout. Run by path."""

import json
import sys
from typing import Any

MAX_FAULTS = 5
MAX_CHARACTERS = 500


def faults(schema: dict[str, Any], result: Any) -> list[str]:
    modules: dict[str, Any] = sys.modules
    modules["rfc3987_syntax"] = None  # seconds to load, and for formats, which are not checked here
    import jsonschema
    import referencing

    # An empty registry: by default jsonschema fetches references from the network.
    validator = jsonschema.validators.validator_for(schema)(schema, registry=referencing.Registry())
    found: list[str] = []
    for error in validator.iter_errors(result):
        found.append(f"{error.json_path}: {error.message}"[:MAX_CHARACTERS])
        if len(found) == MAX_FAULTS:
            break
    return found


if __name__ == "__main__":
    request = json.load(sys.stdin)
    print(json.dumps(faults(request["schema"], request["result"])))
