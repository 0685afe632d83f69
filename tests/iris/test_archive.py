"""The workspace travels whole and unchanged, and what must not travel does not.

Over 300 lines: the cases of one archive stand together.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlaunch.errors import ClusterError
from rlaunch.shell import Shell
from rlaunch.travel import members
from rlaunch_iris import archive, travel

SHELL = Shell()


def git(root: Path, *words: str) -> None:
    """Run git as somebody."""
    who = ["-c", "user.email=ada@example.org", "-c", "user.name=ada", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(root), *who, *words], check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with one of everything that Iris's own bundle loses."""
    root = tmp_path / "tree"
    for folder in ("docs", "tests", "target", "lib", "real", ".github"):
        (root / folder).mkdir(parents=True)
    for name in (
        "docs/a.md",
        "tests/test_a.py",
        "target/out",
        "lib/x.so",
        "a.ipynb",
        "naïve-李明.txt",
    ):
        (root / name).write_text(name, encoding="utf-8")
    (root / ".github/workflow.yml").write_text("x")
    (root / 'a b\t"c"\\.txt').write_text("odd")
    (root / "run.sh").write_text("#!/bin/sh\necho hi\n")
    (root / "run.sh").chmod(0o755)
    (root / "real/file").write_text("r")
    (root / "link").symlink_to("real/file")
    (root / "folder-link").symlink_to("real")
    (root / "dangling").symlink_to("nowhere")
    (root / ".gitignore").write_text("ignored\n*.log\n")
    (root / "gone.txt").write_text("deleted in the working tree")
    git(root.parent, "init", "-q", str(root))
    git(root, "add", "-A", "-f")
    git(root, "commit", "-qm", "all")
    (root / "gone.txt").unlink()
    (root / "ignored").write_text("no")
    (root / "new.py").write_text("untracked")
    (root / "docs/a.md").write_text("changed")
    return root


def names(root: Path) -> list[str]:
    """List what travels."""
    return [m.name for m in members(str(root), SHELL)]


def pack(root: Path) -> archive.Archive:
    """Pack a tree."""
    return archive.pack(str(root), members(str(root), SHELL), lambda line: None)


def unpack(packed: archive.Archive, place: Path) -> Path:
    """Unpack as the job does."""
    place.mkdir()
    with tarfile.open(fileobj=io.BytesIO(packed.data)) as tar:
        tar.extractall(place, filter="fully_trusted")  # noqa: S202  # our own
    return place


def test_nothing_that_iris_drops_is_lost(tree: Path, tmp_path: Path) -> None:
    """Tests, docs, libraries, notebooks, odd names, modes and links arrive as they are; changes too."""
    place = unpack(pack(tree), tmp_path / "out")
    found = {
        str(p.relative_to(place)) for p in place.rglob("*") if not p.is_dir() or p.is_symlink()
    }
    assert found == {
        "docs/a.md", "tests/test_a.py", "target/out", "lib/x.so", "a.ipynb", "naïve-李明.txt",
        ".github/workflow.yml", 'a b\t"c"\\.txt', "run.sh", "real/file", "link", "folder-link", "dangling",
        ".gitignore", "new.py",
    }  # fmt: skip
    assert (place / "docs/a.md").read_text() == "changed"
    assert os.access(place / "run.sh", os.X_OK)
    assert not os.access(place / "new.py", os.X_OK)
    assert (place / "link").readlink() == Path("real/file")
    assert (place / "folder-link").is_symlink()


def test_same_content_is_the_same_archive(tree: Path, tmp_path: Path) -> None:
    """Dates, the place of the checkout and the time of day change nothing."""
    first = pack(tree)
    for path in tree.rglob("*"):
        if path.is_file() and not path.is_symlink():
            os.utime(path, (1, 1))
    moved = tmp_path / "elsewhere"
    tree.rename(moved)
    assert pack(moved).data == first.data


@pytest.mark.parametrize("change", ["content", "mode", "link", "new file"])
def test_any_change_is_another_archive(tree: Path, change: str) -> None:
    """A byte, a mode or a link that differs gives another digest."""
    before = pack(tree).sha256
    match change:
        case "content":
            (tree / "new.py").write_text("Untracked")
        case "mode":
            (tree / "new.py").chmod(0o755)
        case "link":
            (tree / "link").unlink()
            (tree / "link").symlink_to("real")
        case "new file":
            (tree / "newer.py").touch()
    assert pack(tree).sha256 != before


def test_names_that_are_no_text(tree: Path, tmp_path: Path) -> None:
    """A name whose bytes are not UTF-8 travels too."""
    raw = os.fsencode(str(tree)) + b"/caf\xe9.txt"
    Path(os.fsdecode(raw)).write_text("latin")
    place = unpack(pack(tree), tmp_path / "out")
    assert Path(os.fsdecode(os.fsencode(str(place)) + b"/caf\xe9.txt")).read_text() == "latin"


@settings(max_examples=25, deadline=None)
@given(
    st.sets(
        st.text(
            st.characters(blacklist_characters="/\0", blacklist_categories=("Cs",)),
            min_size=1, max_size=12,
        ).filter(lambda name: name.strip(".") and len(name.encode()) < 200 and name != ".git"),
        min_size=1,
        max_size=5,
    )
)  # fmt: skip
def test_every_name_is_listed(tmp_path_factory: pytest.TempPathFactory, wanted: set[str]) -> None:
    """Whatever characters a name has, git's listing of it reads back as it is."""
    root = tmp_path_factory.mktemp("names")
    git(root, "init", "-q")
    for name in wanted:
        (root / name).write_text("x")
    subprocess.run(
        ["git", "-C", str(root), "config", "core.precomposeunicode", "false"], check=True
    )
    listed = set(names(root))
    ignored = {name for name in wanted if name == ".gitignore"}
    assert wanted - ignored <= listed | ignored


@pytest.mark.parametrize(
    "name",
    [
        ".env", "conf/.env.prod", "secrets.env", "k/id_rsa", "x.p12", ".netrc", "gha-creds-1.json",
        "kubeconfig",
    ],
)  # fmt: skip
def test_secrets_do_not_travel(tmp_path: Path, name: str) -> None:
    """A file that holds secrets by its name is an error that names it."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("TOKEN=1")
    listed = members(str(tmp_path), SHELL)
    found = travel.forbidden(str(tmp_path), listed)
    assert found == (name,)
    (finding,) = travel.judge(archive.pack(str(tmp_path), listed, print), found, 1 << 20)
    assert finding.code == "iris.workspace-secret"
    assert f"`{name}`" in finding.message


@pytest.mark.parametrize(
    ("name", "text", "secret"),
    [
        ("ca.pem", "-----BEGIN CERTIFICATE-----\n", False),
        ("pub.pem", "-----BEGIN PUBLIC KEY-----\n", False),
        ("key.pem", "-----BEGIN RSA PRIVATE KEY-----\n", True),
        ("both.pem", "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n", True),
        ("odd.pem", "?", True),
        (".env.example", "TOKEN=", False),
        ("environment.py", "", False),
        ("monkey.py", "", False),
    ],
)
def test_public_files_travel(tmp_path: Path, name: str, text: str, secret: bool) -> None:
    """A certificate or an example is no secret; a private key is one, whatever stands beside it."""
    (tmp_path / name).write_text(text)
    assert bool(travel.forbidden(str(tmp_path), members(str(tmp_path), SHELL))) is secret


def test_too_large_names_the_largest(tmp_path: Path) -> None:
    """A workspace over the limit is an error with the largest files and their sizes."""
    (tmp_path / "big.bin").write_bytes(os.urandom(3 << 20))
    (tmp_path / "small.py").write_text("x")
    said: list[str] = []
    packed = archive.pack(str(tmp_path), members(str(tmp_path), SHELL), said.append)
    (finding,) = travel.judge(packed, (), 2 << 20)
    assert finding.code == "iris.workspace-too-large"
    assert "`big.bin` 3.0 MiB" in finding.message
    assert list(travel.judge(packed, (), 4 << 20)) == []


def test_progress_is_told(tmp_path: Path) -> None:
    """Packing megabytes says how far it is."""
    for i in range(4):
        (tmp_path / f"{i}.bin").write_bytes(os.urandom(2 << 20))
    said: list[str] = []
    archive.pack(str(tmp_path), members(str(tmp_path), SHELL), said.append)
    assert any("50 %" in line for line in said)


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    """A file that vanishes between listing and packing is an error with its name, never left out."""
    (tmp_path / "a.py").write_text("x")
    listed = members(str(tmp_path), SHELL)
    (tmp_path / "a.py").unlink()
    with pytest.raises(ClusterError, match=r"core\.workspace-unreadable.*`a\.py`"):
        archive.pack(str(tmp_path), listed, print)


def test_second_time_is_kept(tree: Path, tmp_path: Path) -> None:
    """An unchanged tree is not packed again, nor is anything said of it."""
    cache = str(tmp_path / "cache")
    first = archive.bundle(str(tree), SHELL, cache)
    said: list[str] = []
    second = archive.bundle(str(tree), SHELL, cache, said.append)
    assert second == first
    assert said == []


@pytest.mark.parametrize("harm", ["data", "note", "missing", "no permission"])
def test_broken_cache_is_passed_over(tree: Path, tmp_path: Path, harm: str) -> None:
    """A cache that is damaged or cannot be written costs time and nothing else."""
    cache = tmp_path / "cache"
    first = archive.bundle(str(tree), SHELL, str(cache))
    data, note = next(cache.glob("*.gz")), next(cache.glob("*.json"))
    match harm:
        case "data":
            data.write_bytes(b"x")
        case "note":
            note.write_text("[")
        case "missing":
            data.unlink()
        case "no permission":
            data.unlink()
            note.unlink()
            cache.rmdir()
            cache.write_text("a file where the folder should be")
    again = archive.bundle(str(tree), SHELL, str(cache))
    assert again == first
    assert hashlib.sha256(again.data).hexdigest() == again.sha256


def test_modules_of_python_that_are_hidden(tmp_path: Path) -> None:
    """A `code.py` at the top hides Python's own, which Ray imports; one in a package hides nothing."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "json").mkdir()
    for name in ("code.py", "json/__init__.py", "pkg/code.py", "mine.py"):
        (tmp_path / name).touch()
    (finding,) = travel.shadowing(members(str(tmp_path), SHELL))
    assert finding.level == "warning"
    assert "`code`, `json`" in finding.message
    (tmp_path / "code.py").unlink()
    (tmp_path / "json/__init__.py").unlink()
    assert list(travel.shadowing(members(str(tmp_path), SHELL))) == []
