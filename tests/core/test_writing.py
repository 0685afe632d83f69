"""Files that a flag names: replaced whole, written in place where they are no files, or left alone."""

import os
import stat
import threading
from pathlib import Path

import pytest

from rlaunch.errors import RlaunchError
from rlaunch.writing import taken, write


def test_a_file_is_replaced_in_one_step_and_keeps_its_mode(tmp_path: Path):
    """Whoever has the old one open reads it to its end; nothing is left beside it."""
    path = tmp_path / "plan.json"
    path.write_text("the old one")
    path.chmod(0o640)
    with path.open() as reader:
        write(str(path), "the new one é\n")
        assert reader.read() == "the old one"
    assert path.read_text(encoding="utf-8") == "the new one é\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.json"]


def test_a_new_file_has_the_mode_of_the_shell(tmp_path: Path):
    """As `>` would make it, and not for the owner alone as temporary files are."""
    before = os.umask(0o027)
    try:
        write(str(tmp_path / "new"), "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_symbolic_links_are_followed_and_stay(tmp_path: Path):
    """Also a link whose file does not exist yet."""
    (tmp_path / "real").mkdir()
    for name in ("there", "not-yet"):
        (tmp_path / name).symlink_to(tmp_path / "real" / name)
    (tmp_path / "real" / "there").write_text("old")
    for name in ("there", "not-yet"):
        write(str(tmp_path / name), name)
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "real" / name).read_text() == name


@pytest.mark.parametrize("fresh", [False, True])
def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path, *, fresh: bool):
    """What is no regular file is never replaced, and nothing of it can be lost."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    assert not taken(str(pipe))
    write(str(pipe), "through\n", fresh=fresh)
    reader.join(10)
    assert read == ["through\n"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_directory_and_a_missing_one_are_refused(tmp_path: Path):
    """Each is an explained error and leaves nothing behind."""
    for output in (tmp_path, tmp_path / "none" / "x", ""):
        with pytest.raises(RlaunchError, match=r"core\.output"):
            write(str(output), "x")
    assert list(tmp_path.iterdir()) == []


def test_a_fresh_file_never_takes_anothers_place(tmp_path: Path):
    """The one that is there stays; so does a link that points at it."""
    path = tmp_path / "recipe.yaml"
    path.write_text("mine")
    (tmp_path / "link").symlink_to(path)
    for name in ("recipe.yaml", "link"):
        assert taken(str(tmp_path / name))
        with pytest.raises(FileExistsError):
            write(str(tmp_path / name), "theirs", fresh=True)
    assert path.read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 2


def test_writers_at_once_do_not_mix(tmp_path: Path):
    """Whatever the order, the file is the whole text of one of them."""
    path = tmp_path / "plan.json"
    texts = [letter * 200_000 for letter in "abcdefgh"]
    start = threading.Barrier(len(texts))

    def one(text: str) -> None:
        start.wait(10)
        for _ in range(20):
            write(str(path), text)

    threads = [threading.Thread(target=one, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert path.read_text() in texts
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.json"]
