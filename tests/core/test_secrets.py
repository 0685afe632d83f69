"""Secrets: parsed, never run; names in the open, values only at submit."""

from pathlib import Path

import pytest

from rlaunch import secrets
from rlaunch.errors import RlaunchError


def write(tmp_path: Path, text: str, mode: int = 0o600) -> str:
    """Write a secrets file."""
    path = tmp_path / "secrets.env"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return str(path)


def test_lines_are_parsed_and_not_run(tmp_path: Path):
    """`export `, one layer of quotes and comments go; `$` and backticks stay text."""
    path = write(tmp_path, "# c\nexport A=1\nB=\"two words\"\nC='it'\n\nD=$(id) `id`\nE=x=y\nF=\n")
    values, findings = secrets.read(path)
    assert values == {"A": "1", "B": "two words", "C": "it", "D": "$(id) `id`", "E": "x=y", "F": ""}
    assert findings == ()


def test_the_file_wins_over_the_shell_and_empty_is_absent(tmp_path: Path):
    """A name in both has the file's value; a name with an empty value is not at hand."""
    ring = secrets.Keyring(write(tmp_path, "A=file\nEMPTY=\n"), {"A": "shell", "B": "shell"})
    assert ring.names == {"A", "B"}
    assert ring.collect(["A", "B", "EMPTY", "NONE"]) == {"A": "file", "B": "shell"}


def test_cluster_credentials_are_never_collected(tmp_path: Path):
    """`AWS_*` and `R2_*` stay here even when a plan names them."""
    ring = secrets.Keyring(write(tmp_path, "AWS_SECRET_ACCESS_KEY=x\nR2_KEY=y\nA=1\n"), {})
    assert ring.collect(["AWS_SECRET_ACCESS_KEY", "R2_KEY", "A"]) == {"A": "1"}


def test_a_value_is_in_no_representation(tmp_path: Path):
    """repr and errors of a keyring show no value."""
    path = write(tmp_path, "A=canary-value\n")
    assert "canary-value" not in repr(secrets.Keyring(path, {"B": "canary-value"}))


def test_a_bad_line_is_named_by_number_only(tmp_path: Path):
    """A line that is not NAME=value is an error without the line's text."""
    path = write(tmp_path, "A=1\ncanary value\n")
    with pytest.raises(RlaunchError) as caught:
        secrets.read(path)
    (finding,) = caught.value.findings
    assert (finding.code, finding.place) == ("secrets.syntax", f"{path}:2")
    assert "canary" not in str(caught.value)


def test_a_file_that_others_may_read_is_a_warning(tmp_path: Path):
    """Mode 0644 is said, with the command that mends it."""
    _, findings = secrets.read(write(tmp_path, "A=1\n", 0o644))
    assert [f.code for f in findings] == ["secrets.readable"]
    assert findings[0].hint.startswith("chmod 600")


def test_a_missing_file_is_an_error(tmp_path: Path):
    """A secrets file that was named must exist."""
    with pytest.raises(RlaunchError, match=r"secrets\.missing"):
        secrets.read(str(tmp_path / "none"))


def test_a_file_that_is_not_utf8_is_an_error(tmp_path: Path):
    """Bytes that are no UTF-8 are refused without being shown."""
    path = tmp_path / "s"
    path.write_bytes(b"A=\xff\xfe\n")
    with pytest.raises(RlaunchError, match=r"secrets\.unreadable"):
        secrets.read(str(path))


def test_default_file(tmp_path: Path):
    """The variable names the file; else the user's configuration, where it exists."""
    usual = tmp_path / "rlaunch" / "secrets.env"
    config = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert secrets.default_file(config) == ""
    usual.parent.mkdir()
    usual.write_text("A=1\n", encoding="utf-8")
    assert secrets.default_file(config) == str(usual)
    assert secrets.default_file({**config, "RLAUNCH_SECRETS_ENV": "/x"}) == "/x"


def test_a_secret_that_is_no_text_is_named_and_not_sent():
    """Bytes of the shell that are not UTF-8 are refused by the variable's name, never shown."""
    ring = secrets.Keyring("", {"HF_TOKEN": "hush\udcff", "OTHER": "\udcff"})
    with pytest.raises(RlaunchError) as caught:
        ring.collect(["HF_TOKEN"])
    (found,) = caught.value.findings
    assert (found.code, found.place) == ("core.not-text", "HF_TOKEN")
    assert "hush" not in str(found)
