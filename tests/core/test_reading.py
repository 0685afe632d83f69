"""Files that somebody named: regular, of limited size, or a reason why not."""

import os
from pathlib import Path

import pytest

from rlaunch import choose, reading, secrets
from rlaunch.errors import RlaunchError
from rlaunch.world import World


def refusal(path: str, limit: int = 100, *, pipe: bool = False) -> reading.NotReadable:
    """Return why a file is not read."""
    with pytest.raises(reading.NotReadable) as caught:
        reading.read_text(path, limit, pipe=pipe)
    return caught.value


def test_a_file_is_read_up_to_its_limit(tmp_path: Path):
    """As many bytes as the limit are read, and one more is refused, not cut off."""
    path = tmp_path / "f"
    path.write_bytes(b"x" * 100)
    assert reading.read_text(str(path), 100) == "x" * 100
    path.write_bytes(b"x" * 101)
    assert "more than" in str(refusal(str(path)))


def test_what_is_no_regular_file_is_not_begun_with(tmp_path: Path):
    """A device that never ends, a directory and a pipe that nobody writes to are refused at once."""
    os.mkfifo(tmp_path / "pipe")
    assert str(refusal("/dev/zero")) == "it is no regular file"
    assert str(refusal("/dev/zero", pipe=True)) == "it is no regular file"
    assert str(refusal(str(tmp_path / "pipe"))) == "it is no regular file"
    assert str(refusal(str(tmp_path))) == "it is a directory"


@pytest.mark.parametrize("path", ["~nosuchuser/x", "/no/such", "~/nothing-here"])
def test_a_file_that_is_not_there(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A missing file, and one in the home of a user whom nobody knows, are missing."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert refusal(path).missing


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b"])
def test_a_name_that_no_file_has(path: str):
    """A name with a NUL byte or half a surrogate pair is a reason too, not a traceback."""
    assert str(refusal(path)) == "its name is no file name"


def test_a_leading_tilde_is_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`~/x` is looked for in the home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "x").write_text("ä", encoding="utf-8")
    assert reading.read_text("~/x") == "ä"


def test_bytes_that_are_no_text(tmp_path: Path):
    """The first byte that is not UTF-8 is named by its place."""
    (tmp_path / "x").write_bytes(b"abc\xff")
    assert str(refusal(str(tmp_path / "x"))) == "byte 4 is not UTF-8"


def test_secrets_come_through_a_pipe_too():
    """`--secrets-env <(…)` works: the values never lie on a disk."""
    read, write = os.pipe()
    os.write(write, b"A=1\n")
    os.close(write)
    try:
        assert secrets.read(f"/dev/fd/{read}") == ({"A": "1"}, ())
    finally:
        os.close(read)


def test_endless_secrets_and_profiles_are_findings():
    """A secrets file or a profile that never ends is refused with its place."""
    with pytest.raises(RlaunchError) as caught:
        secrets.read("/dev/zero")
    assert [(f.code, f.place) for f in caught.value.findings] == [
        ("secrets.unreadable", "/dev/zero")
    ]
    with pytest.raises(RlaunchError) as caught:
        choose.choose(World.here(artifacts=False, environ={"HOME": "/nonexistent"}), "/dev/zero")
    assert [(f.code, f.place) for f in caught.value.findings] == [
        ("profile.unreadable", "/dev/zero")
    ]


def test_a_nul_byte_in_a_secret_is_told_without_its_value(tmp_path: Path):
    """No variable holds a NUL byte: the secret's name and line are said, never its value."""
    path = tmp_path / "s"
    path.write_bytes(b"A=1\nB=hush\0hush\n")
    with pytest.raises(RlaunchError) as caught:
        secrets.read(str(path))
    (found,) = caught.value.findings
    assert (found.code, found.place) == ("secrets.syntax", f"{path}:2")
    assert "hush" not in str(found)
