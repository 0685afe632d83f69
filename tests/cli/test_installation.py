"""clusters, explain, doctor: what is said about this installation."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rlaunch import explain, schemas

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


def test_the_doctor_finds_an_unwritable_state(rl: Rl, home: Path, monkeypatch: pytest.MonkeyPatch):
    """A state directory that cannot be made is an error with its reason."""
    (home / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "file"))
    document = rl("doctor", "--json").document
    (check,) = [c for c in document["checks"] if c["name"] == "state"]
    assert not check["ok"]
