"""The imperative shell's tools: checkout, configuration, context."""

import subprocess
from pathlib import Path

import pytest

from rlaunch.errors import RlaunchError
from rlaunch.shell import Shell
from rlaunch.world import World, checkout


def git(root: Path, *words: str) -> None:
    """Run git with an identity of its own."""
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(root), *who, *words], check=True, capture_output=True)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one commit."""
    git(tmp_path, "init", "-q")
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def test_a_clean_checkout(repo: Path):
    """HEAD is recorded and nothing is dirty, from a sub-directory too."""
    (repo / "sub").mkdir()
    seen = checkout(Shell(), str(repo / "sub"))
    assert seen.root == str(repo.resolve())
    assert len(seen.commit) == 40
    assert seen.dirty == ()


def test_the_digest_follows_every_change(repo: Path):
    """Changed, untracked, renamed, deleted and odd-named files change the digest; undoing restores it."""
    clean = checkout(Shell(), str(repo))
    (repo / "a.txt").write_text("b", encoding="utf-8")
    changed = checkout(Shell(), str(repo))
    assert changed.dirty == ("a.txt",)
    (repo / "ü \n.txt").write_text("x", encoding="utf-8")
    untracked = checkout(Shell(), str(repo))
    (repo / "ü \n.txt").write_text("y", encoding="utf-8")
    digests = {clean.digest, changed.digest, untracked.digest, checkout(Shell(), str(repo)).digest}
    assert len(digests) == 4
    (repo / "ü \n.txt").unlink()
    git(repo, "checkout", "-q", "a.txt")
    assert checkout(Shell(), str(repo)) == clean
    git(repo, "mv", "a.txt", "b.txt")
    assert checkout(Shell(), str(repo)).dirty == ("a.txt", "b.txt")


def test_outside_git_the_directory_is_the_workspace(tmp_path: Path):
    """Without git there is no commit, and the directory itself is taken."""
    seen = checkout(Shell(), str(tmp_path))
    assert (seen.root, seen.commit, seen.dirty) == (str(tmp_path.resolve()), "", ())


def test_a_repository_without_a_commit(tmp_path: Path):
    """A repository that has no commit yet still gives its top level."""
    git(tmp_path, "init", "-q")
    (tmp_path / "sub").mkdir()
    seen = checkout(Shell(), str(tmp_path / "sub"))
    assert (seen.root, seen.commit) == (str(tmp_path.resolve()), "")


def test_a_missing_workspace_is_an_error():
    """`--workspace` must exist."""
    with pytest.raises(RlaunchError, match=r"core\.workspace"):
        checkout(Shell(), "/does/not/exist")


def here(tmp_path: Path, **more: str) -> World:
    """A world whose home is a temporary directory."""
    return World.here(
        workspace=str(tmp_path), environ={"HOME": str(tmp_path), **more}, artifacts=False
    )


def test_state_lies_under_xdg_state(tmp_path: Path):
    """The record's place follows XDG_STATE_HOME, else the home."""
    assert here(tmp_path).context.state == f"{tmp_path}/.local/state/rlaunch"
    assert here(tmp_path, XDG_STATE_HOME="/s").context.state == "/s/rlaunch"


def test_a_relative_base_directory_is_ignored(tmp_path: Path):
    """XDG says that a relative path is no base directory."""
    assert here(tmp_path, XDG_STATE_HOME="rel").context.state == f"{tmp_path}/.local/state/rlaunch"


def test_a_deleted_directory_stops_a_launch_and_no_watch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """Where the current directory is gone a run can be watched, and a launch says what is wrong."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    environ = {"HOME": str(tmp_path)}
    assert World.here(environ=environ, artifacts=False).context.cwd == ""
    with pytest.raises(RlaunchError, match=r"core\.workspace"):
        World.here(environ=environ)


def test_two_worlds_have_two_run_ids(tmp_path: Path):
    """The run id is drawn anew for every command."""
    assert here(tmp_path).context.run_id != here(tmp_path).context.run_id


def test_values_of_the_shell_stay_out_of_the_context(tmp_path: Path):
    """The context has names of variables, never their values."""
    world = here(tmp_path, WANDB_API_KEY="canary")
    assert "WANDB_API_KEY" in world.context.present
    assert "canary" not in repr(world.context)
    assert "canary" not in repr(world.keyring)


@pytest.mark.parametrize(
    "text",
    ["cluster = ", "clutser = 'local'", "\xff", "clusters = 3", "[clusters]\nlocal = 3", "env = 3"],
)
def test_a_broken_configuration_is_an_error(tmp_path: Path, text: str):
    """rlaunch.toml that cannot be used is refused, never skipped."""
    path = tmp_path / ".config" / "rlaunch" / "rlaunch.toml"
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(RlaunchError) as caught:
        here(tmp_path)
    assert [(f.code, f.place) for f in caught.value.findings] == [("core.config", str(path))]


def test_a_configuration_is_read(tmp_path: Path):
    """rlaunch.toml gives settings by cluster."""
    path = tmp_path / ".config" / "rlaunch" / "rlaunch.toml"
    path.parent.mkdir(parents=True)
    path.write_text("cluster = 'local'\n[clusters.local]\ncpu = 2\n", encoding="utf-8")
    assert here(tmp_path).user == {"cluster": "local", "clusters": {"local": {"cpu": 2}}}


def test_the_shell_never_raises_for_what_a_command_did(tmp_path: Path):
    """A missing program, a refused one and a hanging one are codes 127, 126 and 124."""
    shell = Shell()
    plain = tmp_path / "plain"
    plain.write_text("x", encoding="utf-8")
    assert shell.run(["/does/not/exist"]).code == 127
    assert shell.run([str(plain)]).code == 126
    assert shell.run(["sleep", "5"], timeout=0.1).code == 124
    assert shell.run(["cat"], stdin="ü").out == "ü"
    assert shell.run(["sh", "-c", "printf '\\377'; exit 3"])[1:3] == (3, "\ufffd")
