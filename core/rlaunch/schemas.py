"""JSON schemas of the documents, made from their classes (`python -m rlaunch.schemas DIR` writes them).

Every key that a class has is required; more keys are allowed, since a later version may add some.
What a key is comes from the docstring below its field.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import textwrap
import types
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from rlaunch import recipe_shapes, shapes
from rlaunch.model import Run

DOCUMENTS: Mapping[str, type[Any]] = {**shapes.DOCUMENTS, **recipe_shapes.DOCUMENTS}
"""Name of the schema file -> shape."""

_SCALARS: Mapping[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Any: {},
}


def schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of one document by its name in `DOCUMENTS`."""
    document = DOCUMENTS[name]
    definitions: dict[str, Any] = {}
    body = _object(document, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"rlaunch/{name}.json",
        "title": f"rlaunch.{name}/1",
        **body,
        "$defs": dict(sorted(definitions.items())),
    }


def files() -> dict[str, str]:
    """Return file name -> text of every schema."""
    return {f"{name}.json": json.dumps(schema(name), indent=2) + "\n" for name in DOCUMENTS}


def _object(shape: type[Any], definitions: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(shape)
    keys = [key for key in hints if not (shape is Run and key == "provenance")]  # only at top level
    notes = field_notes(shape)
    if "schema" in notes:
        notes["schema"] = "Kind and version of this document."
    properties = {key: {**_type(hints[key], definitions), **_note(notes, key)} for key in keys}
    summary = (shape.__doc__ or "").strip().partition("\n")[0]
    return {"type": "object", "description": summary, "properties": properties, "required": keys}


def _note(notes: Mapping[str, str], key: str) -> dict[str, str]:
    return {"description": notes[key]} if notes.get(key) else {}


def field_notes(kind: type[Any]) -> dict[str, str]:
    """Return the docstrings that stand below the fields of a class, its bases' first, each in one line."""
    notes: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("rlaunch"):
            continue
        parsed = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        body = parsed.body if isinstance(parsed, ast.ClassDef) else []
        for here, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(here, ast.AnnAssign) and isinstance(here.target, ast.Name):
                says = after.value if isinstance(after, ast.Expr) else None
                text = says.value if isinstance(says, ast.Constant) else ""
                notes[here.target.id] = " ".join(str(text).split())
    return notes


def _type(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if hint in _SCALARS:
        return dict(_SCALARS[hint])
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"const": parts[0]} if len(parts) == 1 else {"enum": list(parts)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_type(part, definitions) for part in parts]}
    if origin is tuple:
        if len(parts) == 2 and parts[1] is Ellipsis:
            return {"type": "array", "items": _type(parts[0], definitions)}
        fixed = [_type(part, definitions) for part in parts]
        return {
            "type": "array",
            "prefixItems": fixed,
            "minItems": len(fixed),
            "maxItems": len(fixed),
        }
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _type(parts[1], definitions)}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if not hasattr(hint, "_fields"):
        raise TypeError(f"a document cannot hold a `{hint}`")
    if hint.__name__ not in definitions:
        definitions[hint.__name__] = {}
        definitions[hint.__name__] = _object(hint, definitions)
    return {"$ref": f"#/$defs/{hint.__name__}"}


def main() -> None:
    """Write all schemas into the directory that is named."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
