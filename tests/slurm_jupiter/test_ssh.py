"""A login node through a real sshd on loopback: words, files, bytes and failures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlaunch.errors import ClusterError
from rlaunch.model import Plan, Recipe, Run, Workspace
from rlaunch.shell import Shell
from rlaunch.world import checkout
from rlaunch_slurm_jupiter import source
from rlaunch_slurm_jupiter.site import Here, Parcel, Site, There, pack
from rlaunch_slurm_jupiter.ssh import SshShell, remote_command

SERVICE = Path(__file__).resolve().parents[1] / "services" / "sshd.sh"
WORDS = ["a b", 'it\'s "q"', "$HOME `id` $(id)", "l1\nl2", "李", "", "\\n\\", "-n", "*", "a,b;c|d&"]
PROBE = "import json, sys; print(json.dumps([sys.argv[1:], sys.stdin.read()]))"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
@settings(max_examples=60, deadline=None)
def test_any_words_survive_the_remote_shell(words: list[str]) -> None:
    """The one text that ssh is given reads back as the words, whatever they are."""
    text = remote_command(["/usr/bin/printf", "%s\\0", *words], "/", {"X": "a b"})
    done = subprocess.run(["sh", "-c", text], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == (words or [""])


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An ssh configuration with a host `login`."""
    if not Path("/usr/sbin/sshd").exists() and os.getuid() != 0:
        why = "there is no sshd, and only root can install one"
        pytest.fail(why) if os.environ.get("RLAUNCH_REQUIRE_SERVICES") else pytest.skip(why)
    base = tmp_path_factory.mktemp("sshd")
    done = subprocess.run([SERVICE, "up", base], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(done.stderr) if os.environ.get("RLAUNCH_REQUIRE_SERVICES") else pytest.skip(
            done.stderr
        )
    yield done.stdout.strip()
    subprocess.run([SERVICE, "down", base], check=False)


@pytest.fixture
def there(config: str) -> Iterator[There]:
    """The login node."""
    site = There(Shell(), "login")
    shell = SshShell(Shell(), "login", {"RLAUNCH_SSH_CONFIG": config})
    site.shell = shell
    yield site
    shell.close()


def test_words_and_input_arrive(there: There) -> None:
    """Arguments arrive unchanged, and so does what is sent on stdin."""
    done = there.run([sys.executable, "-c", PROBE, *WORDS], stdin="x\ny 李")
    assert done.code == 0, done.err
    assert json.loads(done.out) == [WORDS, "x\ny 李"]


def test_exit_codes_and_lost_connections(there: There) -> None:
    """A command's own code comes back; 255 is ssh's, and is an error of the connection."""
    assert there.run(["sh", "-c", "exit 7"]).code == 7
    there.shell = SshShell(Shell(), "nowhere.invalid", {})
    with pytest.raises(ClusterError, match="did not answer") as caught:
        there.cat(["/etc/hostname"])
    assert caught.value.transient


@pytest.mark.parametrize("kind", ["here", "there"])
def test_a_scripts_own_lines_stand_above_the_shell(
    kind: str, there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables such as `SBATCH_ACCOUNT`, which win over `#SBATCH` lines, do not reach sbatch."""
    words = ["env"]
    if kind == "there":  # as a login shell's start-up files would have set them
        before = there.shell.run
        monkeypatch.setattr(there.shell, "run", lambda argv, **k: before(argv, **k, env=LOGIN))
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    site: Site = Here(Shell()) if kind == "here" else there
    names = {row.partition("=")[0] for row in site.batch(words).out.splitlines()}
    assert "SLURM_CONF" in names
    assert not names & {"SBATCH_ACCOUNT", "SLURM_JOB_ID"}


LOGIN = {"SBATCH_ACCOUNT": "other", "SLURM_JOB_ID": "7", "SLURM_CONF": "/etc/slurm/slurm.conf"}
PARCELS = [
    Parcel("job.sh", 0o700, b"#!/bin/bash\n"),
    Parcel("a b/env.json", 0o600, '{"U": "李"}'.encode()),
    Parcel("x.pyz", 0o600, bytes(range(256)) * 40),
]


@pytest.mark.parametrize("kind", ["here", "there"])
def test_files_are_written_and_read(kind: str, there: There, tmp_path: Path) -> None:
    """Files arrive byte for byte with their modes, in a private directory, from here and through ssh."""
    site: Site = Here(Shell()) if kind == "here" else there
    root = tmp_path / "it's a run"
    site.put(str(root), PARCELS)
    for parcel in PARCELS:
        path = root / parcel.path
        assert path.read_bytes() == parcel.data
        assert path.stat().st_mode & 0o777 == parcel.mode
    assert root.stat().st_mode & 0o077 == 0
    read = site.cat([f"{root}/a b/*", f"{root}/job.sh", f"{root}/none", f"{root}/none/*"])
    assert read == {f"{root}/a b/env.json": '{"U": "李"}', f"{root}/job.sh": "#!/bin/bash\n"}
    assert site.cat([f"{root}/job.sh"], 3) == {f"{root}/job.sh": "#!/"}


@pytest.mark.parametrize("kind", ["here", "there"])
def test_tails_continue_where_they_were(kind: str, there: There, tmp_path: Path) -> None:
    """Each look gives what is new in every log, bytes that are no text included."""
    site: Site = Here(Shell()) if kind == "here" else there
    log = tmp_path / "logs" / "1" / "0.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"one\n\xff\x01")
    (tmp_path / "job-7.out").write_bytes(b"out\n")
    first = site.tails({}, str(tmp_path))
    assert first == {"logs/1/0.log": b"one\n\xff\x01", "job-7.out": b"out\n"}
    offsets = {name: len(data) for name, data in first.items()}
    assert site.tails(offsets, str(tmp_path)) == {}
    with log.open("ab") as file:
        file.write(b"two\n")
    assert site.tails(offsets, str(tmp_path)) == {"logs/1/0.log": b"two\n"}


@pytest.mark.parametrize("name", ["../x", "/x", ""])
def test_nothing_leaves_its_root(name: str) -> None:
    """A plan file that was edited cannot write elsewhere."""
    with pytest.raises(ClusterError, match="outside"):
        pack([Parcel(name, 0o600, b"")])


@pytest.mark.parametrize("remote", [True, False])
def test_the_workspace_is_sent_once(
    there: There, tmp_path: Path, remote: bool, plan_of: Callable[..., Plan], run_on: Callable[..., Run]
) -> None:  # fmt: skip
    """What git tracks and what is new arrives as it is, checkouts inside too; a second time sends nothing."""
    root, target = tmp_path / "code", tmp_path / "source" / "abc"
    site = there if remote else Here(Shell())
    odd = os.fsdecode(b"caf\xe9")
    for name, text in {
        "a.py": "1", "sub/b.sh": "2", "new.py": "3", ".gitignore": "*.bin\n", "x.bin": "4",
        "inner/own.py": "5", odd: "6",
    }.items():  # fmt: skip
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        (root / name).write_text(text)
    (root / "sub/b.sh").chmod(0o755)
    (root / "link").symlink_to("sub/b.sh")
    (root / "folder").symlink_to("sub")
    (root / "dangling").symlink_to("/no where")
    subprocess.run(["git", "-C", root / "inner", "init", "-q"], check=True)
    for words in (["init", "-q"], ["add", "a.py", "sub"]):
        subprocess.run(["git", "-C", root, *words], check=True)
    plan = shipped(plan_of(run_on()), root, target)
    assert source.ship(Shell(), site, plan)
    assert [p.name for p in target.parent.iterdir()] == [target.name]
    found = {str(p.relative_to(target)) for p in target.rglob("*") if p.is_symlink() or p.is_file()}
    assert found == {
        "a.py", "sub/b.sh", "new.py", ".gitignore", "inner/own.py", odd, "link", "folder", "dangling",
        source.DONE,
    }  # fmt: skip
    assert os.access(target / "sub/b.sh", os.X_OK)
    assert (target / odd).read_text() == "6"
    assert (target / "folder").readlink() == Path("sub")
    assert (target / "dangling").readlink() == Path("/no where")
    (root / "new.py").write_text("changed, but the place is known by what was planned")
    assert not source.ship(Shell(), site, plan)


def shipped(plan: Plan, root: Path, target: Path) -> Plan:
    """Let a plan have this workspace, at this place."""
    run = plan.run._replace(workspace=checkout(Shell(), str(root)))
    return plan._replace(run=run, native={**plan.native, "source": str(target)})


@pytest.fixture
def changing(
    tmp_path: Path, plan_of: Callable[..., Plan], run_on: Callable[..., Run]
) -> tuple[Plan, Path]:
    """A plan whose workspace was edited after it was made."""
    root = tmp_path / "code"
    root.mkdir()
    subprocess.run(["git", "-C", root, "init", "-q"], check=True)
    (root / "a.py").write_text("1")
    plan = shipped(plan_of(run_on()), root, tmp_path / "source" / "abc")
    (root / "a.py").write_text("2")
    return plan, root


def test_a_workspace_that_changed_is_not_sent_under_its_old_name(
    changing: tuple[Plan, Path], tmp_path: Path
) -> None:
    """What is not what was planned is refused, and nothing of it stays; undone, it is sent."""
    plan, root = changing
    with pytest.raises(ClusterError, match="workspace-changed"):
        source.ship(Shell(), Here(Shell()), plan)
    assert list((tmp_path / "source").iterdir()) == []
    (root / "a.py").write_text("1")
    assert source.ship(Shell(), Here(Shell()), plan)


def test_two_launches_send_one_workspace(
    changing: tuple[Plan, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes second leaves the first one's tree as it is, and cleans up its own."""
    plan, root = changing
    (root / "a.py").write_text("1")
    target = tmp_path / "source" / "abc"
    put = Here.put

    def first(site: Here, place: str, parcels: Iterable[Parcel]) -> None:
        put(site, place, parcels)
        if not target.exists():
            target.mkdir()
            (target / source.DONE).write_text("by the other")

    monkeypatch.setattr(Here, "put", first)
    assert source.ship(Shell(), Here(Shell()), plan)
    assert (target / source.DONE).read_text() == "by the other"
    assert [p.name for p in target.parent.iterdir()] == ["abc"]


def test_a_workspace_outside_git_is_not_guessed(
    plan_of: Callable[..., Plan], run_on: Callable[..., Run], saved: Callable[[str], Recipe], tmp_path: Path
) -> None:  # fmt: skip
    """Without git nothing says what belongs to the code: refused, where the job needs any of it."""
    recipe = saved("jupiter_24GPU_qwen3_coder_30b_a3b")
    for made, codes in (
        (run_on(recipe=recipe), ["slurm_jupiter.source"]),
        (run_on(recipe=recipe, ships_workspace=False), []),
        (run_on(), []),
    ):
        plan = plan_of(made._replace(workspace=Workspace(str(tmp_path))))
        assert [f.code for f in source.judge(Shell(), plan)] == codes
