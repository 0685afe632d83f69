"""What of a workspace travels, and what it is known by: nothing is left behind or out of date silently."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rlaunch.errors import ClusterError, RlaunchError
from rlaunch.shell import Shell
from rlaunch.travel import left_out, members
from rlaunch.world import checkout

SHELL = Shell()


def git(root: Path, *words: str) -> None:
    """Run git as somebody, with submodules from this machine."""
    who = ("-c", "user.email=ada@example.org", "-c", "user.name=ada", "-c", "commit.gpgsign=false")
    local = ("-c", "protocol.file.allow=always")
    subprocess.run(["git", "-C", str(root), *who, *local, *words], check=True, capture_output=True)


def repository(root: Path, **files: str) -> Path:
    """Make a repository with one commit."""
    root.mkdir(parents=True)
    git(root, "init", "-q")
    for name, text in files.items():
        (root / name).write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    return root


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with a submodule that has a submodule, and with an untracked checkout inside."""
    deep = repository(tmp_path / "deep", deep="d")
    inner = repository(tmp_path / "inner", code="i", gone="g")
    (inner / ".gitignore").write_text("*.log\n")
    git(inner, "submodule", "add", "-q", str(deep), "deeper")
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "two")
    root = repository(tmp_path / "tree", top="t")
    git(root, "submodule", "add", "-q", str(inner), "sub")
    git(root, "submodule", "update", "-q", "--init", "--recursive")
    git(root, "commit", "-qm", "two")
    repository(root / "nested", own="o")
    return root


def names(root: Path) -> list[str]:
    """List what travels."""
    return [member.name for member in members(str(root), SHELL)]


def test_checkouts_inside_the_checkout_travel_with_what_is_new_in_them(tree: Path) -> None:
    """Submodules, theirs, and checkouts that are none: tracked and new files travel, ignored ones do not."""
    for name in ("sub/new.py", "sub/deeper/new.py", "nested/new.py", "sub/x.log"):
        (tree / name).write_text("new")
    (tree / "sub/gone").unlink()
    assert names(tree) == [
        ".gitmodules", "nested/new.py", "nested/own", "sub/.gitignore", "sub/.gitmodules", "sub/code",
        "sub/deeper/deep", "sub/deeper/new.py", "sub/new.py", "top",
    ]  # fmt: skip
    assert list(left_out(members(str(tree), SHELL))) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "sub/code").write_text("changed"),
        lambda root: (root / "sub/new.py").write_text("new"),
        lambda root: (root / "sub/deeper/deep").write_text("changed"),
        lambda root: (root / "nested/own").write_text("changed"),
        lambda root: git(root / "sub", "checkout", "-q", "HEAD~1"),
        lambda root: Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9")).write_text("1"),
        lambda root: (root / "top").chmod(0o755),
        lambda root: (root / "link").symlink_to(os.fsdecode(b"caf\xe9")),
    ],
    ids=["submodule", "new in submodule", "deep", "nested", "commit", "no text", "mode", "link"],
)
def test_the_digest_follows_every_change_inside(
    tree: Path, change: Callable[[Path], object]
) -> None:
    """The workspace is known by its content: what would start other code has another digest."""
    before = checkout(SHELL, str(tree))
    change(tree)
    after = checkout(SHELL, str(tree))
    assert after.digest != before.digest
    "".join(after.dirty).encode()  # all names can be printed


def test_a_second_change_is_seen_too(tree: Path) -> None:
    """A file that was changed already changes the digest again, in a submodule and under an odd name."""
    odd = Path(os.fsdecode(os.fsencode(tree) + b"/caf\xe9"))
    digests = set()
    for text in ("1", "2", "3"):
        (tree / "sub/code").write_text(text)
        digests.add(checkout(SHELL, str(tree)).digest)
        odd.write_text(text)
        digests.add(checkout(SHELL, str(tree)).digest)
    assert len(digests) == 6


def test_a_submodule_that_is_not_checked_out_is_said(tree: Path, tmp_path: Path) -> None:
    """It would be an empty directory in the job: a warning that says what to type."""
    copy = tmp_path / "copy"
    git(tmp_path, "clone", "-q", str(tree), str(copy))
    (found,) = left_out(members(str(copy), SHELL))
    assert (found.level, found.code, found.place) == ("warning", "core.workspace-submodule", "sub")
    assert "submodule update --init" in found.hint
    git(copy, "submodule", "update", "-q", "--init", "--recursive")
    assert list(left_out(members(str(copy), SHELL))) == []


def test_pipes_and_sockets_are_said(tmp_path: Path) -> None:
    """Outside git everything travels but bytecode; a pipe cannot, and that is said."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/x.pyc").touch()
    (tmp_path / "a.py").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    listed = members(str(tmp_path), SHELL)
    assert [(m.name, m.kind) for m in listed] == [
        ("a.py", "file"), ("link", "link"), ("pipe", "other"),
    ]  # fmt: skip
    (found,) = left_out(listed)
    assert (found.code, found.place) == ("core.workspace-special", "pipe")


def test_git_that_fails_is_an_error(tmp_path: Path) -> None:
    """A repository that git cannot read is an error, never an empty or a clean workspace."""
    git(tmp_path, "init", "-q")
    (tmp_path / ".git/index").write_bytes(b"rubbish, long enough for a header" * 4)
    with pytest.raises(ClusterError, match="workspace-unreadable"):
        members(str(tmp_path), SHELL)
    with pytest.raises(RlaunchError, match="workspace-unreadable"):
        checkout(SHELL, str(tmp_path))
