"""The JSON that rlaunch prints and reads."""

import datetime
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlaunch import documents, schemas
from rlaunch.discovery import Claim
from rlaunch.errors import RlaunchError
from rlaunch.model import (
    Artifact,
    Command,
    Entry,
    File,
    Finding,
    JobRef,
    Observed,
    Paths,
    Plan,
    Rank,
    Recipe,
    Run,
    SecretFile,
    Setting,
    State,
    Status,
    Workspace,
)
from rlaunch.runs import Row
from rlaunch.shapes import (
    Check,
    DoctorDocument,
    ExplainDocument,
    LaunchDocument,
    NamesDocument,
    Summary,
)

ROOT = Path(__file__).parents[2]


def make_plan(**fields: Any) -> Plan:
    """A plan in which every part has something in it."""
    run = Run(
        id="r-1", name="r", cluster="here", profile={"name": "here", "env": {}}, user="u",
        created="2026-01-01T00:00:00Z", version="0",
        recipe=Recipe("r.yaml", "a" * 64, {"lr": 1e-6, "list": [1, None]}, {"lr": (1, 1)}),
        workspace=Workspace("/w", "c" * 40, ("x",), "d"), model_path="m", train_data=("d",), val_data=(),
        nodes=2, gpus_per_node=8, cpu=48.5, memory="1TiB", disk=None, max_retries=1, timeout_s=60,
        priority="batch", preemptible=True, task_image=None, skyrl_ref=None, python="/py",
        paths=Paths("/r", "/r/rv", "/r", "/d", "/r"), resume="never", overrides=("a=b",), env={"A": "é"},
        secrets=("HF_TOKEN",), allow=("env.dollar",), identity="i" * 64,
        provenance={"nodes": Setting(2, "derived", "why")},
    )  # fmt: skip
    command = Command(
        ("/py", "a b"), ("/py", "stage"), "/cwd", ("/p",), ("s.pyz",), (), (Entry("a", "dropped"),)
    )
    file = File("f", "run-dir", 0o600, "text\n")
    plan = Plan(
        run, command, {"A": "é"}, ("HF_TOKEN",), (file,), (Artifact("n.pyz", "job", "f" * 64, 9),),
        (SecretFile("s", "submitter", 0o600, ("HF_TOKEN",)),), {"argv": ["a"]},
        Observed("2026-01-01T00:00:00Z", "here", {"free": 2}), (Finding("note", "a.b", "m", "p", "h"),),
    )  # fmt: skip
    return plan._replace(**fields)


def test_a_plan_survives_json():
    """Written, read as text and made a plan again, it is the same plan."""
    plan = make_plan()
    text = documents.to_text(documents.plan_to_json(plan))
    again = documents.read_plan(text, "p.json")
    assert documents.plan_to_json(again) == documents.plan_to_json(plan)
    assert again.run == plan.run._replace(recipe=again.run.recipe)
    assert (again.files, again.env, again.command) == (plan.files, plan.env, plan.command)


@settings(deadline=None)  # the machine may be busy
@given(st.dictionaries(st.text(min_size=1), st.text()), st.lists(st.text()))
def test_any_text_survives(env: dict[str, str], argv: list[str]):
    """No environment value and no argument is changed by the way through a file."""
    plan = make_plan(env=env, command=Command(tuple(argv)))
    again = documents.read_plan(documents.to_text(documents.plan_to_json(plan)), "p")
    assert dict(again.env) == env
    assert list(again.command.argv) == argv


def test_the_line_of_a_run_directory_is_the_same_document():
    """The one line that run directories keep says what the printed document says, and its digest fits."""
    plan = make_plan()
    line = documents.plan_to_line(plan)
    assert line.count("\n") == 1
    assert json.loads(line) == documents.plan_to_json(plan)
    again = documents.plan_from_json(json.loads(line))
    assert documents.plan_to_line(again) == line


def test_the_plan_document_is_the_promised_one():
    """Its keys are those that other programs rely on; provenance stands at the top only."""
    document = documents.plan_to_json(make_plan())
    assert set(document) == {
        "schema", "run", "command", "env", "secrets", "files", "artifacts", "secret_files", "native",
        "observed", "provenance", "findings", "digest",
    }  # fmt: skip
    assert "provenance" not in document["run"]
    assert set(document["run"]) == set(Run._fields) - {"provenance"}
    assert document["provenance"] == {"nodes": {"value": 2, "source": "derived", "reason": "why"}}


@pytest.mark.parametrize("path", ["env.A", "run.nodes", "native.argv", "secrets", "digest"])
def test_an_edited_plan_is_refused(path: str):
    """Whatever was changed in the file, the digest no longer fits."""
    document = documents.plan_to_json(make_plan())
    *parents, last = path.split(".")
    inner: Any = document
    for parent in parents:
        inner = inner[parent]
    inner[last] = "changed"
    with pytest.raises(RlaunchError, match="edited"):
        documents.plan_from_json(document)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "plan.not-json"),
        ("[" * 100_000, "plan.not-json"),
        ("[]", "plan.schema"),
        ('"x"', "plan.schema"),
        ('{"schema": "rlaunch.plan/2"}', "plan.schema"),
        ('{"schema": "rlaunch.status/1"}', "plan.schema"),
    ],
)
def test_what_is_no_plan_is_named(text: str, code: str):
    """A file that is not JSON, or another document, is told apart from a plan; the file is the place."""
    with pytest.raises(RlaunchError) as refused:
        documents.read_plan(text, "my.json")
    (finding,) = refused.value.findings
    assert finding.code == code
    assert finding.place.startswith("my.json")


def test_a_list_of_jobs_is_a_list_of_any_length():
    """Who asks about whatever is open gets one kind of document; only a job that was named is alone."""
    for count in (0, 1, 2):
        document = documents.statuses_to_json([make_status()] * count)
        assert document["schema"] == "rlaunch.statuses/1"
        assert len(document["jobs"]) == count
    assert documents.statuses_to_json([make_status()], one=True)["schema"] == "rlaunch.status/1"


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda d: d["run"].pop("nodes"), "run.nodes"),
        (lambda d: d["run"].update(nodes="2"), "run.nodes"),
        (lambda d: d["run"].update(extra=1), "run.extra"),
        (lambda d: d["files"][0].update(place="moon"), "files.0.place"),
        (lambda d: d.pop("env"), "env"),
        (lambda d: d.update(run=[]), "run"),
    ],
    ids=["missing", "wrong type", "unknown", "wrong word", "missing on top", "a list"],
)
def test_a_plan_of_another_shape_is_refused_by_key(change: Any, place: str):
    """A missing, unknown or wrongly typed key is named, even where the digest fits."""
    document = documents.plan_to_json(make_plan())
    change(document)
    document["digest"] = documents.digest(document)
    with pytest.raises(RlaunchError) as refused:
        documents.plan_from_json(document)
    assert {f.code for f in refused.value.findings} == {"plan.invalid"}
    assert any(f.place.startswith(place) for f in refused.value.findings)


def test_the_digest_ignores_the_order_of_keys():
    """A file that was only laid out anew is not an edited one."""
    document = documents.plan_to_json(make_plan())
    other = json.loads(json.dumps(document, sort_keys=True))
    documents.plan_from_json(other)


def test_what_json_lacks_is_written_as_text():
    """Dates, infinities, sets and keys that are no text become text, and the document stays JSON."""
    value = {1: datetime.date(2026, 1, 2), "i": float("inf"), "m": float("-inf"), "n": float("nan")}
    made = documents.plain({**value, "s": frozenset({"b", "a"}), "e": State.RUNNING})
    assert made == {
        "1": "2026-01-02", "i": ".inf", "m": "-.inf", "n": ".nan", "s": ["a", "b"], "e": "RUNNING",
    }  # fmt: skip
    json.dumps(made, allow_nan=False)


def make_status(run: str = "r-1") -> Status:
    """A status with all its fields."""
    rank = Rank(0, "n0", "running", 1.5, None, None)
    return Status(
        JobRef("here", "7", run),
        State.RUNNING,
        "why",
        "2026-01-01T00:00:00Z",
        1,
        None,
        None,
        (rank,),
        {"x": 1},
    )


def make_row() -> Row:
    """A recorded run."""
    return Row(
        "r-1", "r", "here", "7", "u", "i", "r.yaml", "a", "c", ("x",), 2, (), "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:01Z", None, "", None, None, None, {},
    )  # fmt: skip


SAMPLES: dict[str, Any] = {
    "plan": documents.plan_to_json(make_plan()),
    "status": documents.statuses_to_json([make_status()], one=True),
    "statuses": documents.statuses_to_json([make_status(), make_status("")]),
    "runs": documents.runs_to_json([make_row(), make_row()._replace(state="FAILED", native="")]),
    "clusters": documents.clusters_to_json({"a": (Claim("d", "m"), Claim("e", "n"))}),
    "findings": documents.findings_to_json([Finding("error", "a.b", "m")]),
    "launch": documents.plain(
        LaunchDocument(
            "rlaunch.launch/1", "here:7", "r-1", "r", "here", documents.status_document(make_status()),
            Summary(0.1, 0.9, 3, 7, 8, "succeeded", "/r", "/r"), (),
        )
    ),
    "explain": documents.plain(
        ExplainDocument("rlaunch.explain/1", "setting", "cpu", "", None, None, "here", 48, "default", "")
    ),
    "names": documents.plain(NamesDocument("rlaunch.names/1", ("env.dollar",), ("cpu",), ("stopped",))),
    "doctor": documents.plain(DoctorDocument("rlaunch.doctor/1", (Check("git", True, "2", "ok"),))),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_real_document_fits_its_schema(name: str):
    """What rlaunch prints validates against the schema that is published for it."""
    jsonschema.Draft202012Validator(schemas.schema(name)).validate(SAMPLES[name])
    assert SAMPLES[name]["schema"] == f"rlaunch.{name}/1"


@pytest.mark.parametrize("name", sorted(schemas.DOCUMENTS))
def test_the_published_schemas_are_current(name: str):
    """`docs/schemas/` has what the classes say (`python -m rlaunch.schemas docs/schemas` renews it)."""
    published = (ROOT / "docs" / "schemas" / f"{name}.json").read_text(encoding="utf-8")
    assert published == schemas.files()[f"{name}.json"]
    jsonschema.Draft202012Validator.check_schema(json.loads(published))


@pytest.mark.parametrize("name", sorted(schemas.DOCUMENTS))
def test_every_key_says_what_it_is(name: str):
    """A key of a document, or of a part of it, has a description: the docstring below its field."""
    schema = schemas.schema(name)
    silent = [
        f"{part.get('title', key)}.{field}"
        for key, part in ((name, schema), *schema["$defs"].items())
        for field, one in part["properties"].items()
        if not one.get("description", "").endswith(".")
    ]
    assert silent == []


def test_no_schema_is_published_that_does_not_exist():
    """A document that was given up leaves no schema behind."""
    published = {path.stem for path in (ROOT / "docs" / "schemas").glob("*.json")}
    assert published == set(schemas.DOCUMENTS)


def test_a_schema_refuses_what_lacks_a_key():
    """The schemas are strict enough to notice a key that is gone."""
    broken = {key: value for key, value in SAMPLES["status"].items() if key != "state"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schemas.schema("status")).validate(broken)


def test_the_schemas_are_written_by_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The command that renews the schemas writes all of them."""
    monkeypatch.setattr("sys.argv", ["schemas", str(tmp_path / "new")])
    schemas.main()
    assert {path.name for path in (tmp_path / "new").iterdir()} == set(schemas.files())


def test_a_shape_without_a_schema_is_a_fault_of_ours():
    """A field type that JSON cannot hold is refused when the schema is made, not silently left open."""
    with pytest.raises(TypeError, match="cannot hold"):
        schemas._type(bytes, {})
