"""The JSON that rlaunch prints and reads: one shape per kind of document, each with a schema.

Every document says its `schema`, such as `rlaunch.plan/1`; a later one may add keys and never
changes one. The classes below are the shapes: `schemas.py` turns them into the JSON schemas under
`docs/schemas/`. Values that JSON lacks are written as text (dates as ISO 8601, infinities as YAML
writes them).
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rlaunch.codes import Code
from rlaunch.errors import RlaunchError
from rlaunch.model import Finding, JobRef, Plan, State, Status
from rlaunch.shapes import (
    ClusterName,
    ClustersDocument,
    FindingsDocument,
    RecordedRun,
    RunsDocument,
    StatusDocument,
    StatusesDocument,
)

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from rlaunch.runs import Row

PLAN = "rlaunch.plan/1"


def plain(value: Any) -> Any:
    """Return any value of ours as what JSON has: dict, list, text, number, truth, null."""
    kind = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is tuple or kind is list:
        return [plain(item) for item in value]
    if isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return str(value)  # an enum member becomes its text
    if isinstance(value, float):
        return (
            value
            if value - value == 0
            else {float("inf"): ".inf", float("-inf"): "-.inf"}.get(value, ".nan")
        )
    if hasattr(value, "_fields"):
        return dict(zip(value._fields, map(plain, value), strict=True))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(plain(item) for item in value)
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


_AS_IT_IS = frozenset({str, int, bool, type(None)})
"""Most values of a document: told by their exact type before anything else is asked."""


def to_text(document: Mapping[str, Any]) -> str:
    """Return the document as it is printed and written: two spaces, UTF-8, one final newline."""
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def digest(document: Mapping[str, Any]) -> str:
    """Return the sha256 of a document without its `digest`, whatever the order of its keys."""
    return _sum(_line({key: value for key, value in document.items() if key != "digest"}))


def _line(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _sum(line: str) -> str:
    return hashlib.sha256(line.encode("utf-8", "surrogatepass")).hexdigest()


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """Return the plan document; `plan_from_json` gives the plan back."""
    document = _unsigned(plan)
    document["digest"] = digest(document)
    return document


def plan_to_line(plan: Plan) -> str:
    """Return the plan document on one line, its keys sorted but `digest`: converted and dumped once."""
    line = _line(_unsigned(plan))
    return f'{line[:-1]},"digest":"{_sum(line)}"}}\n'


def _unsigned(plan: Plan) -> dict[str, Any]:
    whole = plain(plan)
    run, findings = whole.pop("run"), whole.pop("findings")
    provenance = run.pop("provenance")
    return {"schema": PLAN, "run": run, **whole, "provenance": provenance, "findings": findings}


def plan_from_json(document: Any) -> Plan:
    """Read a plan document.

    Raises RlaunchError: `plan.schema` (another kind or version), `plan.edited` (its digest does not
    fit), `plan.invalid` (a key is missing, unknown or of the wrong type; one finding per fault).
    """
    if not isinstance(document, dict) or document.get("schema") != PLAN:
        said = document.get("schema") if isinstance(document, dict) else type(document).__name__
        raise RlaunchError.of(
            "plan.schema",
            f"this is no plan that this rlaunch reads: its schema is `{said}`, not `{PLAN}`",
            place="schema",
            hint="make one with `rlaunch plan … -o plan.json`",
        )
    if document.get("digest") != digest(document):
        raise RlaunchError.of(
            "plan.edited",
            "the plan was edited after it was made: its digest does not fit",
            place="digest",
            hint="change the flags or the recipe and make a new plan",
        )
    rest = {
        key: value
        for key, value in document.items()
        if key not in ("schema", "digest", "provenance")
    }
    run = document.get("run")
    if isinstance(run, dict):
        rest["run"] = {**run, "provenance": document.get("provenance")}
    return _validate(rest)


@functools.cache
def _reader() -> TypeAdapter[Plan]:
    from pydantic import TypeAdapter

    return TypeAdapter(Plan)


def _validate(data: Mapping[str, Any]) -> Plan:
    from pydantic import ValidationError

    try:
        return _reader().validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        raise RlaunchError(
            *(
                Finding(
                    "error",
                    "plan.invalid",
                    f"{fault['msg'][:1].lower()}{fault['msg'][1:]}",
                    ".".join(str(part) for part in fault["loc"]),
                    "make a new plan with this rlaunch",
                )
                for fault in error.errors(include_url=False, include_input=False)
            )
        ) from None


def read_plan(text: str, place: str) -> Plan:
    """Read the text of a plan file; `place` is its path. Raises as `plan_from_json`, and `plan.not-json`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RlaunchError.of(
            "plan.not-json",
            f"the plan is not JSON: {error}",
            place=place,
            hint="make one with `rlaunch plan … -o plan.json`",
        ) from None
    try:
        return plan_from_json(document)
    except RlaunchError as error:
        raise RlaunchError(
            *(f._replace(place=f"{place}: {f.place}" if f.place else place) for f in error.findings)
        ) from None


def status_document(status: Status) -> StatusDocument:
    """Return one status in its document's shape."""
    fields = {key: value for key, value in status._asdict().items() if key != "job"}
    return StatusDocument("rlaunch.status/1", str(status.job), status.job.run_id, **fields)


def status_to_json(status: Status) -> dict[str, Any]:
    """Return the document of one status."""
    return dict(plain(status_document(status)))


def statuses_to_json(statuses: Iterable[Status], *, one: bool = False) -> dict[str, Any]:
    """Return the document of any number of statuses; with `one`, for the one job that was named, its own."""
    documents = tuple(status_document(status) for status in statuses)
    if one and len(documents) == 1:
        return dict(plain(documents[0]))
    return dict(plain(StatusesDocument("rlaunch.statuses/1", documents)))


def runs_to_json(rows: Iterable[Row]) -> dict[str, Any]:
    """Return the document of recorded runs (without their plans)."""
    runs = tuple(_recorded(row) for row in rows)
    return dict(plain(RunsDocument("rlaunch.runs/1", runs)))


def _recorded(row: Row) -> RecordedRun:
    fields = {name: getattr(row, name) for name in RecordedRun._fields if name in row._fields}
    fields["state"] = State(row.state) if row.state else None
    job = str(JobRef(row.cluster, row.native)) if row.native else None
    return RecordedRun(run=row.run_id, job=job, **fields)


def clusters_to_json(claims: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Return the document of installed cluster names; takes `discovery.claims()`."""
    clusters = tuple(
        ClusterName(name, tuple(c.distribution for c in several), several[0].module)
        for name, several in claims.items()
    )
    return dict(plain(ClustersDocument("rlaunch.clusters/1", clusters)))


def findings_to_json(findings: Iterable[Finding]) -> dict[str, Any]:
    """Return the document that stands for the one that could not be made."""
    return dict(plain(FindingsDocument("rlaunch.findings/1", tuple(findings))))


CODES = (
    Code(
        "plan.not-json", "A plan file is not JSON.\n\nMake one with `rlaunch plan … -o plan.json`."
    ),
    Code(
        "plan.schema",
        "A file is not a plan, or a plan of another version.\n\n"
        "Its key `schema` must be the one that this rlaunch writes. Make a new plan.",
    ),
    Code(
        "plan.edited",
        "A plan file was changed after it was made.\n\n"
        "What is submitted is what was shown, so the file carries a digest over all of it. Change the\n"
        "flags or the recipe, and make a new plan.",
    ),
    Code(
        "plan.invalid",
        "A plan file lacks a key, has one too many, or a value of another type.\n\n"
        "It was made by another rlaunch. Make a new plan with this one.",
    ),
)
