"""clusters, explain, doctor: what is said about this installation."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rlaunch import doctor, explain, schemas
from rlaunch.endings import REASONS
from rlaunch.shell import Done
from rlaunch.testing.fakes import FakeShell

Rl = Callable[..., Any]


def fits(document: Any, name: str) -> None:
    """Validate a document against its published schema."""
    jsonschema.Draft202012Validator(schemas.schema(name)).validate(document)


def test_clusters_are_listed_with_plugin_and_distribution(rl: Rl, scripted: Any):
    """As a table and as a document."""
    said = rl("clusters")
    assert said.code == 0
    assert ["scripted", "scripted_cluster", "scripted-cluster"] in [
        line.split() for line in said.out.splitlines()
    ]
    document = rl("clusters", "--json").document
    fits(document, "clusters")
    assert {
        "name": "scripted",
        "distributions": ["scripted-cluster"],
        "module": "scripted_cluster",
    } in document["clusters"]


def test_a_profile_file_is_checked(rl: Rl, scripted: Any, tmp_path: Path):
    """A valid one is named; one with an unknown key is refused by key."""
    shipped = (Path(__file__).parent / "scripted" / "scripted.yaml").read_text()
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(shipped)
    bad.write_text(f"{shipped}cpus: 4\n")
    assert (
        "the profile `scripted` of the plugin `scripted` is valid"
        in rl("clusters", "--check", str(good)).out
    )
    said = rl("clusters", "--check", str(bad))
    assert said.code == 3
    assert "did you mean `cpu`" in said.err
    assert rl("clusters", "--check", str(bad), "--json").document["findings"]


def test_a_setting_is_explained_with_value_source_and_reason(rl: Rl, scripted: Any):
    """The profile's reason is the documentation; hyphens are as good as underscores."""
    said = rl("explain", "cpu", "--cluster", "scripted")
    assert said.code == 0
    assert "cpu = 48.0  [profile scripted]" in said.out
    assert "why: half of the node belongs to the system" in said.out
    document = rl("explain", "max-retries", "--cluster", "scripted", "--json").document
    fits(document, "explain")
    assert (document["kind"], document["value"], document["source"]) == ("setting", 0, "default")


def test_a_code_is_explained_by_its_page(rl: Rl):
    """The page, its level, and whether a flag lets it pass."""
    said = rl("explain", "env.dollar")
    assert said.code == 0
    assert "`--allow env.dollar` lets it pass" in said.out
    assert "no flag lets it pass" in rl("explain", "env.refused").out
    fits(rl("explain", "plan.edited", "--json").document, "explain")


def test_every_reason_is_explained(rl: Rl):
    """What a status says in brackets can be asked about: what it means, and what to do."""
    said = rl("explain", "head-lost")
    assert said.code == 0
    assert said.out.startswith("head-lost (reason)\n\nThe agent of rank 0 is gone")
    assert rl("explain", "head_lost").out == said.out
    assert "`--resume auto`" in said.out
    fits(rl("explain", "staging-failed", "--json").document, "explain")
    assert "did you mean `worker-lost`?" in rl("explain", "worker-los").err
    document = rl("explain", "--json").document
    fits(document, "names")
    assert set(document["reasons"]) == set(REASONS)
    last = rl("explain").out.rstrip().rpartition("\n\n")[2]
    assert {line.split()[0] for line in last.splitlines()} == set(REASONS)


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("stopped", "stopped"),
        ("kueue: couldn't assign flavors. Needed: 8", "kueue"),
        ("QOSMaxJobsPerUserLimit", "QOS-limit"),
    ],
)
def test_a_reason_is_explained_as_the_status_prints_it(rl: Rl, told: str, name: str):
    """It can be copied out of the brackets, with what the cluster said after it."""
    said = rl("explain", told)
    assert (said.code, said.out.splitlines()[0]) == (0, f"{name} (reason)")


def test_a_setting_goes_before_a_reason_of_another_spelling(rl: Rl, scripted: Any):
    """`priority` is a setting, `Priority` is what SLURM says of a job that waits."""
    assert rl("explain", "priority", "--cluster", "scripted").out.startswith("priority = ")
    assert rl("explain", "Priority").out.startswith("Priority (reason)")


def test_a_schedulers_sentence_is_no_reason_of_ours(rl: Rl, scripted: Any):
    """It is told as what it is, and where to look."""
    said = rl("explain", "3 of 4 ranks run")
    assert said.code == 3
    assert "the scheduler's own" in said.err


def test_the_fields_of_a_profile_are_listed_with_what_they_are(rl: Rl, scripted: Any):
    """So that a profile of one's own can be written: what `profile.invalid` hints at works."""
    said = rl("explain", "--cluster", "scripted")
    assert "egress                Compute nodes reach the internet." in said.out
    assert "egress" in rl("explain", "--cluster", "scripted", "--json").document["settings"]
    assert "egress" not in rl("explain", "--json").document["settings"]
    told = rl("explain", "egress", "--cluster", "scripted").out
    assert "  Compute nodes reach the internet, on `scripted`\n" in told


def test_each_hint_of_an_invalid_profile_can_be_followed(rl: Rl, scripted: Any, tmp_path: Path):
    """What is missing has a page of its own; an unknown field leads to the list."""
    profile = tmp_path / "mine.yaml"
    profile.write_text("name: mine\nplugin: scripted\nzzz: 1\n", encoding="utf-8")
    said = rl("explain", "cpu", "--cluster", str(profile))
    assert said.code == 3
    hints = re.findall(r"`rlaunch (explain [^`]*)`", said.err)
    assert "explain storage_root --cluster scripted" in hints
    assert "explain --cluster scripted" in hints
    for hint in hints:
        assert rl(*hint.split()).code == 0, hint


def test_a_plugins_code_is_found_by_its_owner(rl: Rl, scripted: Any):
    """The owner of a code is the name of the plugin that says it."""
    said = rl("explain", "scripted.full")
    assert (said.code, said.out.splitlines()[0]) == (0, "scripted.full (error)")


def test_an_unknown_setting_of_a_plugin_is_no_setting(rl: Rl, scripted: Any):
    """What neither a profile nor a launch has is told as unknown; `nodes` is a launch's own."""
    assert rl("explain", "colour", "--cluster", "scripted").code == 3
    assert (
        "decided by the recipe or the command line"
        in rl("explain", "nodes", "--cluster", "scripted").out
    )


def test_an_unknown_code_gets_a_suggestion(rl: Rl):
    """Neither code nor setting: exit 3 and the nearest name."""
    said = rl("explain", "env.dolar")
    assert said.code == 3
    assert "did you mean `env.dollar`?" in said.err


def test_all_codes_and_settings_are_listed(rl: Rl):
    """Without a name everything that can be explained is listed."""
    said = rl("explain")
    assert "plan.edited" in said.out
    assert "max_retries" in said.out
    assert "cpu" in rl("explain", "--json").document["settings"]


def test_every_code_of_the_core_has_a_page():
    """`owner.slug`, and a page whose first line is a sentence."""
    codes = explain.codes()
    assert len(codes) > 40
    for name, code in codes.items():
        owner, dot, slug = name.partition(".")
        assert owner
        assert dot
        assert slug == slug.lower()
        assert code.page.partition("\n")[0].endswith("."), name


def test_the_doctor_finds_a_broken_plugin(rl: Rl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It is told with distribution and exception, the rest is looked at all the same; exit 3."""
    monkeypatch.syspath_prepend(str(tmp_path))
    metadata = tmp_path / "brk-1.dist-info"
    metadata.mkdir()
    (metadata / "entry_points.txt").write_text("[rlaunch.clusters]\nzz-broken = brk_module\n")
    (tmp_path / "brk_module.py").write_text("raise ImportError('libfoo is missing')")
    said = rl("doctor")
    assert said.code == 3
    assert "brk does not import: ImportError: libfoo is missing" in said.out
    document = rl("doctor", "--json").document
    fits(document, "doctor")
    byname = {check["name"]: check for check in document["checks"]}
    assert byname["python"]["ok"]
    assert byname["git"]["ok"]
    assert not byname["plugin zz-broken"]["ok"]


def test_the_doctor_warns_of_a_ray_token(rl: Rl, home: Path):
    """A token in the home changes how Ray starts; it is a warning and no failure."""
    (home / ".ray").mkdir()
    (home / ".ray" / "auth_token").write_text("x")
    document = rl("doctor", "--json").document
    (check,) = [c for c in document["checks"] if c["name"] == "ray token"]
    assert (check["ok"], check["level"]) == (True, "warning")


def test_the_doctor_tells_two_claims_of_one_name(
    rl: Rl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Both distributions are named."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("one", "two"):
        metadata = tmp_path / f"{name}-1.dist-info"
        metadata.mkdir()
        (metadata / "entry_points.txt").write_text("[rlaunch.clusters]\nzz-both = json\n")
    assert "claimed by one and two; uninstall one of them" in rl("doctor").out


def test_the_doctor_names_what_is_missing():
    """Without git or Ray it warns, without a library of ours it fails, and it never raises."""
    gone = FakeShell(lambda argv, stdin: Done(argv, 127, "", "not found"))
    assert not doctor.git(gone).ok
    assert doctor.job_ray(gone, "/py").detail.startswith("/py has none")
    found = {check.name: check for check in doctor.versions(("typer", "no-such-library"))}
    assert found["typer"].ok
    assert found["no-such-library"].detail == "not installed"


def test_the_doctor_finds_a_broken_configuration(rl: Rl, home: Path):
    """A `rlaunch.toml` that cannot be read is told, and the other checks are made."""
    (home / ".config" / "rlaunch").mkdir(parents=True)
    (home / ".config" / "rlaunch" / "rlaunch.toml").write_text("cluster = ")
    document = rl("doctor", "--json").document
    (check,) = [c for c in document["checks"] if c["name"] == "configuration"]
    assert not check["ok"]
    assert any(c["name"] == "git" for c in document["checks"])


def test_the_doctor_finds_a_corrupt_record(rl: Rl, home: Path):
    """The run record is read, so that trouble with it is told."""
    state = home / ".local" / "state" / "rlaunch"
    state.mkdir(parents=True)
    (state / "runs.sqlite").mkdir()
    document = rl("doctor", "--json").document
    (check,) = [c for c in document["checks"] if c["name"] == "run record"]
    assert (check["ok"], check["level"]) == (False, "warning")


def test_the_doctor_finds_an_unwritable_state(rl: Rl, home: Path, monkeypatch: pytest.MonkeyPatch):
    """A state directory that cannot be made is an error with its reason."""
    (home / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "file"))
    document = rl("doctor", "--json").document
    (check,) = [c for c in document["checks"] if c["name"] == "state"]
    assert not check["ok"]
