"""Checked recipes as SARIF 2.1.0, the format that code hosts and editors show beside the lines. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from rlaunch.checking import Checked
from rlaunch.codes import Code
from rlaunch.model import Finding

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_PLACE = re.compile(
    r"(?P<file>.+?):(?P<line>[0-9]+):(?P<column>[0-9]+)(?:: (?P<key>.+))?\Z", re.DOTALL
)


def log(checked: Iterable[Checked], codes: Mapping[str, Code], version: str) -> dict[str, Any]:
    """Return one SARIF log with one run: a result for each finding, a rule for each code that was said."""
    said = [(recipe.path, finding) for recipe in checked for finding in recipe.findings]
    names = sorted({finding.code for _, finding in said})
    index = {name: number for number, name in enumerate(names)}
    driver = {
        "name": "rlaunch",
        "semanticVersion": version,
        "rules": [_rule(name, codes.get(name)) for name in names],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(path, finding, index[finding.code]) for path, finding in said],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(name: str, code: Code | None) -> dict[str, Any]:
    rule: dict[str, Any] = {"id": name}
    if code is not None:
        summary = code.page.partition("\n")[0]
        rule |= {
            "shortDescription": {"text": summary},
            "fullDescription": {"text": code.page},
            "help": {"text": code.page},
            "defaultConfiguration": {"level": code.level},
        }
    return rule


def _result(path: str, finding: Finding, index: int) -> dict[str, Any]:
    text = f"{finding.message}\nhint: {finding.hint}" if finding.hint else finding.message
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": finding.level,
        "message": {"text": text},
        "locations": [_location(path, finding.place)],
    }


def _location(path: str, place: str) -> dict[str, Any]:
    """Point at the line where the finding has one, else at the recipe."""
    match = _PLACE.match(place)
    if match is None or match["file"] != path:
        return {"physicalLocation": {"artifactLocation": {"uri": uri(path)}}}
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": uri(path)},
            "region": {"startLine": int(match["line"]), "startColumn": int(match["column"])},
        }
    }
    if match["key"]:
        location["logicalLocations"] = [{"fullyQualifiedName": match["key"], "kind": "member"}]
    return location


def uri(path: str) -> str:
    """Return a path as a URI: absolute ones as `file:`, relative ones as they stand."""
    text = quote(path, safe="/")
    return f"file://{text}" if path.startswith("/") else text
