"""What of a workspace travels, and what it is known by: nothing is left behind or out of date silently."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rlaunch.errors import ClusterError, RlaunchError
from rlaunch.shell import Done, Shell
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


def test_what_git_knows_below_a_link_is_not_there(tree: Path, tmp_path: Path) -> None:
    """A tracked directory that became a link travels as the link; nothing is read or written through it."""
    (tree / "pkg/deep").mkdir(parents=True)
    (tree / "pkg/deep/x.py").write_text("x")
    git(tree, "add", "pkg")
    git(tree, "commit", "-qm", "pkg")
    (tree / "pkg").rename(tmp_path / "live")
    (tree / "pkg").symlink_to(tmp_path / "live")
    found = {m.name: m.kind for m in members(str(tree), SHELL) if m.name.startswith("pkg")}
    assert found == {"pkg": "link"}


def test_a_directory_that_became_a_file_travels_as_the_file(tree: Path) -> None:
    """What was tracked below it is deleted, not unreadable."""
    (tree / "lib").mkdir()
    (tree / "lib/y.py").write_text("y")
    git(tree, "add", "lib")
    git(tree, "commit", "-qm", "lib")
    (tree / "lib/y.py").unlink()
    (tree / "lib").rmdir()
    (tree / "lib").write_text("now a file")
    assert [m.name for m in members(str(tree), SHELL) if m.name.startswith("lib")] == ["lib"]


def test_changes_that_look_alike_have_digests_of_their_own(tmp_path: Path) -> None:
    """Deleted, empty, executable, a link, bytes that move from a name into a content: all are different."""
    root = repository(tmp_path / "r", a="1", ab="2")
    path, digests = root / "a", [checkout(SHELL, str(root)).digest]

    def note() -> None:
        digests.append(checkout(SHELL, str(root)).digest)

    path.unlink()
    note()
    path.write_text("")
    note()
    path.chmod(0o755)
    note()
    path.unlink()
    path.symlink_to("gone")
    note()
    path.unlink()
    for name, text in (("ac", "d"), ("acd", ""), ("a", "cd")):
        (root / name).write_text(text)
        note()
        (root / name).unlink()
    assert len(set(digests)) == len(digests)


def test_git_is_asked_in_its_own_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator whose git speaks German has the same workspace; so has one without git."""
    (tmp_path / "a.py").touch()
    said: list[tuple[str, ...]] = []

    class German(Shell):
        def run(self, argv: Sequence[str], **how: Any) -> Done:
            said.append(tuple(argv))
            if how["env"].get("LC_ALL") == "C":
                return super().run(argv, **how)
            return Done(tuple(argv), 128, "", "fatal: Kein Git-Repository")

    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    assert [m.name for m in members(str(tmp_path), German())] == ["a.py"]
    assert checkout(German(), str(tmp_path)).digest == ""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [m.name for m in members(str(tmp_path), SHELL)] == ["a.py"]
    assert checkout(SHELL, str(tmp_path)).digest == ""
    assert said


def test_a_checkout_that_git_does_not_trust_is_an_error(tmp_path: Path) -> None:
    """Somebody else's checkout is refused with git's own words, not taken for no checkout at all."""

    class Careful(Shell):
        def run(self, argv: Sequence[str], **how: Any) -> Done:
            return Done(tuple(argv), 128, "", f"fatal: detected dubious ownership in `{tmp_path}`")

    with pytest.raises(ClusterError, match="dubious ownership"):
        checkout(Careful(), str(tmp_path))
    with pytest.raises(ClusterError, match="dubious ownership"):
        members(str(tmp_path), Careful())


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


PLAN = '{\n  "schema": "rlaunch.plan/1",\n  "run": {}\n}\n'


def test_a_plan_file_in_the_checkout_changes_nothing(tree: Path) -> None:
    """`rlaunch plan -o plan.json` leaves the workspace as it was planned, and the file does not travel."""
    before, listed = checkout(SHELL, str(tree)), names(tree)
    (tree / "plan.json").write_text(PLAN)
    (tree / "nested/other plan").write_text(PLAN)
    assert (checkout(SHELL, str(tree)), names(tree)) == (before, listed)


def test_a_plan_file_that_git_tracks_travels(tree: Path) -> None:
    """What was committed belongs to the code, whatever it is; so does any other JSON file."""
    (tree / "plan.json").write_text(PLAN)
    git(tree, "add", "plan.json")
    (tree / "data.json").write_text('{"schema": "else"}')
    assert {"plan.json", "data.json"} <= set(names(tree))
    assert {"plan.json", "data.json"} <= set(checkout(SHELL, str(tree)).dirty)


def test_the_output_of_the_command_is_no_part_of_the_workspace(tree: Path) -> None:
    """`rlaunch … > log` in the checkout neither ships the log nor changes what the workspace is known by."""
    look = (
        "import sys; from rlaunch.shell import Shell; from rlaunch.world import checkout; "
        "from rlaunch.travel import members; print('begun', flush=True); "
        "print(checkout(Shell(), '.').digest, 'log' in {m.name for m in members('.', Shell())})"
    )
    before = checkout(SHELL, str(tree)).digest
    with (tree / "log").open("w") as log:
        subprocess.run([sys.executable, "-c", look], cwd=tree, stdout=log, check=True)
    assert (tree / "log").read_text() == f"begun\n{before} False\n"
    assert "log" in names(tree)
