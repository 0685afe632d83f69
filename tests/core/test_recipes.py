"""Reading recipes: what is taken as it stands, what is refused, and where each finding points."""

import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rlaunch import recipes
from rlaunch.errors import RecipeError
from rlaunch.model import Finding

ROOT = Path(__file__).resolve().parents[2]


def faults(data: bytes | str) -> tuple[Finding, ...]:
    """Return the findings of a recipe that is refused."""
    with pytest.raises(RecipeError) as caught:
        recipes.parse(data.encode() if isinstance(data, str) else data, "r.yaml")
    return caught.value.findings


def body(text: str) -> Any:
    """Return a recipe's body."""
    return recipes.parse(text.encode(), "r.yaml").body


@pytest.mark.parametrize(
    ("data", "code", "place", "word"),
    [
        ("", "recipe.not-mapping", "r.yaml", "empty"),
        ("- 1", "recipe.not-mapping", "r.yaml:1:1", "list"),
        ("x", "recipe.not-mapping", "r.yaml:1:1", "text"),
        ("a: 1\nb: [", "recipe.not-yaml", "r.yaml:3:1", "expected"),
        ("a: 1\n  b: 2", "recipe.not-yaml", "r.yaml:2:4", "mapping values"),
        ("a: 1\n---\nb: 2", "recipe.not-yaml", "r.yaml:2:1", "document"),
        ("a: \0", "recipe.not-yaml", "r.yaml:1:4", "control"),
        ("a: *b", "recipe.not-yaml", "r.yaml:1:4", "alias"),
        (b"a: 1\nb: x\xff", "recipe.not-utf8", "r.yaml:2:5", "0xff"),
        ("a: {x: 1,\n x: 2}", "recipe.duplicate-key", "r.yaml:2:2", "in line 1 and in line 2"),
        ("1: a", "recipe.key-not-text", "r.yaml:1:1", "`1` is a number"),
        ("on: a", "recipe.key-not-text", "r.yaml:1:1", "`on` is a boolean"),
        ("? [a]\n: b", "recipe.key-not-text", "r.yaml:1:3", "list"),
        ("a: &x [*x]", "recipe.alias-loop", "r.yaml:1:4", "a[0]"),
        ("a: &x\n  b: *x", "recipe.alias-loop", "r.yaml:1:4", "a.b"),
        ("a: &x\n  <<: *x", "recipe.alias-loop", "r.yaml:1:4", "merges"),
        ("a: 2026-01-01", "recipe.unsupported-value", "r.yaml:1:4", "date"),
        ("a: 2026-13-45", "recipe.unsupported-value", "r.yaml:1:4", "date"),
        ("a: !!binary aGk=", "recipe.unsupported-value", "r.yaml:1:4", "!!binary"),
        ("a: !!set {x}", "recipe.unsupported-value", "r.yaml:1:4", "!!set"),
        ("a: !mine 3", "recipe.unsupported-value", "r.yaml:1:4", "!mine"),
        ("a: !!python/object:os.system x", "recipe.unsupported-value", "r.yaml:1:4", "python"),
        ("a: {<<: 3}", "recipe.unsupported-value", "r.yaml:1:9", "merging"),
        ("a: !!int x", "recipe.unsupported-value", "r.yaml", "cannot be read"),
        ("a: " + "[" * 60 + "]" * 60, "recipe.too-large", "r.yaml:1:52", "deep"),
        ("[" * 3000, "recipe.not-yaml", "r.yaml:1:1001", "nest"),
        ("a" * (recipes.LIMIT + 1), "recipe.too-large", "r.yaml", "KiB"),
    ],
)
def test_a_recipe_that_cannot_be_taken_is_refused(
    data: bytes | str, code: str, place: str, word: str
):
    """One finding, with its place and a hint."""
    (finding,) = faults(data)
    assert (finding.level, finding.code, finding.place) == ("error", code, place)
    assert word in finding.message
    assert finding.hint


def test_all_duplicates_are_named_at_once():
    """Nobody wants to mend them one by one."""
    assert [f.place for f in faults("a: 1\nb: {c: 1, c: 2}\na: 3\n")] == [
        "r.yaml:2:11",
        "r.yaml:3:1",
    ]


def test_aliases_that_explode_are_refused_quickly():
    """Nine levels of nine aliases are 387 million values; the walk stops long before."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    (finding,) = faults("\n".join(lines))
    assert finding.code == "recipe.too-large"


def test_values_are_those_of_the_safe_loader():
    """YAML 1.1: `1e-6` is text, `yes` is true, `010` is eight; quotes decide."""
    assert body('a: 1e-6\nb: yes\nc: 010\nd: "1.18.2"\ne:\nf: {}\ng: []\nh: .inf\ni: é') == {
        "a": "1e-6", "b": True, "c": 8, "d": "1.18.2", "e": None, "f": {}, "g": [], "h": float("inf"),
        "i": "é",
    }  # fmt: skip


def test_shapes_of_real_recipes_survive():
    """Colons, carets, JSON and braces in texts, Windows line ends, a byte-order mark, long comments."""
    text = "\ufeff" + "# é comment\r\n" * 200 + (
        "import_path: a.b:C\r\nn: '^ibs'\r\nj: '{\"key\": \"v\"}'\r\nt: '{name} x'\r\np: ./chat/x.j2\r\n"
    )  # fmt: skip
    assert body(text) == {
        "import_path": "a.b:C", "n": "^ibs", "j": '{"key": "v"}', "t": "{name} x", "p": "./chat/x.j2",
    }  # fmt: skip


def test_every_key_and_item_has_its_place():
    """Lines and columns from 1; merged keys point at where they are written."""
    recipe = recipes.parse(
        b"d: &d {x: 1, y: 2}\nt:\n  <<: *d\n  x: 3\n  l: [a, {b: c}]\n", "r.yaml"
    )
    assert recipe.body["t"] == {"x": 3, "y": 2, "l": ["a", {"b": "c"}]}
    assert recipe.marks == {
        "d": (1, 1), "d.x": (1, 8), "d.y": (1, 14), "t": (2, 1), "t.x": (4, 3), "t.y": (1, 14), "t.l": (5, 3),
        "t.l[0]": (5, 7), "t.l[1]": (5, 10), "t.l[1].b": (5, 11),
    }  # fmt: skip
    assert recipe.at("t.l") == "r.yaml:5:3: t.l"


def test_an_explicit_null_is_marked():
    """The tag `!null` reads as the marker; a plain null stays null."""
    assert body("a: !null\nb: null\nc: [!null , 1]") == {"a": "!null", "b": None, "c": ["!null", 1]}


def test_texts_in_quotes_that_look_like_numbers_are_remembered():
    """A plain `1e-6` is a number for the trainer, a quoted one is text."""
    recipe = recipes.parse(b"a: 1e-6\nb: '1e-6'\nc: ['2E5', 'else', 'e']", "r.yaml")
    assert recipe.quoted == ("b", "c[0]")


def test_the_pure_loader_reads_the_same(monkeypatch: pytest.MonkeyPatch):
    """Where libyaml is missing, nothing changes but the speed."""
    text = (ROOT / "docs/recipes/smoke.yaml").read_bytes()
    fast = recipes.parse(text, "r.yaml")
    monkeypatch.delattr(yaml, "CSafeLoader")
    assert recipes.parse(text, "r.yaml") == fast
    assert faults("a: 1\nb: x\x07")[0].place == "r.yaml:2:5"
    assert faults("a: [")[0].code == "recipe.not-yaml"
    assert faults("[" * 1200)[0].code == "recipe.not-yaml"


def test_a_file_is_read_once_and_hashed(tmp_path: Path):
    """The hash is over the bytes, comments included."""
    path = tmp_path / "r.yaml"
    path.write_bytes(b"a: 1\n")
    first = recipes.read(str(path))
    path.write_bytes(b"a: 1 # other\n")
    assert first.path == str(path)
    assert recipes.read(str(path)).sha256 != first.sha256


@pytest.mark.parametrize(
    ("name", "code", "word"),
    [
        ("", "recipe.missing", ""),
        ("smokey.yaml", "recipe.missing", ""),
        ("folder", "recipe.unreadable", "directory"),
        ("pipe", "recipe.unreadable", "no regular file"),
        ("loop", "recipe.missing", ""),
    ],
)
def test_a_path_that_is_no_recipe_is_refused(name: str, code: str, word: str, tmp_path: Path):
    """Missing files get a suggestion; directories, pipes and loops of links are no files."""
    import os

    (tmp_path / "smoke.yaml").write_text("a: 1\n")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(RecipeError) as caught:
        recipes.read(str(tmp_path / name) if name else "")
    (finding,) = caught.value.findings
    assert finding.code == code
    assert word in finding.message
    if name == "smokey.yaml":
        assert "smoke.yaml" in finding.hint


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path):
    """The system's reason is in the message (root may read everything, so a stand-in path is used)."""
    path = tmp_path / "secret.yaml"
    path.write_text("a: 1\n")
    path.chmod(0)
    if not path.stat().st_mode & stat.S_IRUSR and _may_read(path):
        path = Path("/proc/self/mem")
    with pytest.raises(RecipeError, match="cannot be read"):
        recipes.read(str(path))


def _may_read(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def test_a_recipe_outside_the_workspace_is_refused(tmp_path: Path):
    """Links are followed: what counts is where the file really lies."""
    inside, outside = tmp_path / "w", tmp_path / "elsewhere"
    inside.mkdir()
    outside.mkdir()
    for folder in (inside, outside):
        (folder / "r.yaml").write_text("a: 1\n")
    (inside / "link.yaml").symlink_to(outside / "r.yaml")
    (outside / "back.yaml").symlink_to(inside / "r.yaml")
    for good in (inside / "r.yaml", outside / "back.yaml"):
        assert recipes.read(str(good), workspace=str(inside)).body == {"a": 1}
    for bad in (outside / "r.yaml", inside / "link.yaml", inside / ".." / "elsewhere" / "r.yaml"):
        with pytest.raises(RecipeError, match="outside-workspace"):
            recipes.read(str(bad), workspace=str(inside))


TEXTS = st.text(st.characters(blacklist_categories=("Cs",)), max_size=8)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(TEXTS, DATA, min_size=1, max_size=4))
def test_what_yaml_writes_is_read_back(data: dict[str, Any]):
    """Any plain data survives, and every key has a place inside the file."""
    text = yaml.safe_dump(data)
    recipe = recipes.parse(text.encode(), "r.yaml")
    assert recipe.body == yaml.safe_load(text) == data
    assert all(1 <= line <= text.count("\n") + 1 for line, _ in recipe.marks.values())


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_rubbish_is_refused_and_never_raises_otherwise(data: bytes):
    """Any bytes are a recipe or an explained refusal."""
    try:
        recipes.parse(data, "r.yaml")
    except RecipeError as error:
        assert all(f.place.startswith("r.yaml") and f.hint for f in error.findings)  # noqa: PT017  # either is fine
