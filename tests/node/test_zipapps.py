"""The zipapps: the same bytes everywhere, and an agent that needs nothing but Python 3.10."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rlaunch import zipapps

from .gangs import Gang


def find_python_3_10() -> str:
    """Return a Python 3.10 of this machine, from PATH or pyenv; fails with a sentence where there is none."""
    candidates = [shutil.which("python3.10")]
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=True)
        found = sorted(Path(root.stdout.strip()).glob("versions/3.10.*/bin/python3.10"))
        candidates += map(str, found)
    for python in filter(None, candidates):
        done = subprocess.run(
            [python, "-c", "import sys; print(sys.version_info[:2])"],
            capture_output=True,
            check=False,
        )
        if done.stdout.strip() == b"(3, 10)":
            return python
    raise AssertionError("no Python 3.10 on PATH or among pyenv's versions: `pyenv install 3.10`")


@pytest.mark.parametrize("name", zipapps.NAMES)
def test_same_sources_give_the_same_bytes(name: str) -> None:
    """Another process, time zone, umask and hash seed build the very same file."""
    code = "import sys; from rlaunch import zipapps; sys.stdout.buffer.write(zipapps.build(sys.argv[1]))"
    env = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    other = subprocess.run(
        [sys.executable, "-c", code, name], env=env, capture_output=True, check=True, umask=0o077
    )
    assert other.stdout == zipapps.build(name)


@pytest.mark.parametrize("name", zipapps.NAMES)
def test_archive_holds_sources_and_nothing_else(name: str) -> None:
    """Names are sorted within the package, dates are fixed, nothing is compressed or compiled."""
    archive = zipfile.ZipFile(io.BytesIO(zipapps.build(name)))
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    assert names[0] == "__main__.py"
    assert names[1:] == sorted(names[1:])
    assert all(entry.filename.endswith(".py") for entry in entries)
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert {entry.compress_type for entry in entries} == {zipfile.ZIP_STORED}


@pytest.mark.parametrize("name", zipapps.NAMES)
def test_artifact_describes_the_file(name: str) -> None:
    """What stands in a plan is the sha256 and size of what is shipped."""
    data = zipapps.build(name)
    artifact = zipapps.artifact(name)
    assert artifact == (name, "run-dir", hashlib.sha256(data).hexdigest(), len(data))


def test_agent_imports_the_standard_library_only(node_zipapp: Path) -> None:
    """Without site-packages every module of the agent but the S3 client's choice of boto3 loads."""
    code = (
        "import sys, zipimport, zipfile; sys.path.insert(0, sys.argv[1])\n"
        "for name in zipfile.ZipFile(sys.argv[1]).namelist():\n"
        "    if name.startswith('rlaunch_node/') and not name.endswith('__main__.py'):\n"
        "        __import__(name[:-3].replace('/', '.'))\n"
        "assert 'rlaunch' not in sys.modules\n"
    )
    for python in (sys.executable, find_python_3_10()):
        subprocess.run(
            [python, "-I", "-S", "-W", "error", "-c", code, str(node_zipapp)], check=True
        )


def test_agent_runs_on_python_3_10(make_gang: Callable[[int], Gang]) -> None:
    """A whole life on 3.10, up to the Ray that this interpreter does not have: a named reason."""
    gang = make_gang(1)
    assert gang.start(0, python=find_python_3_10()).wait(30) == 69
    assert gang.done["reason"] == "ray-failed"
    assert "no `ray`" in gang.done["detail"]
    assert gang.rank(0)["phase"] == "ended"
    assert gang.left() == []


def test_staging_and_liveness_work_on_python_3_10(make_gang: Callable[[int], Gang]) -> None:
    """The stage command of the zipapp runs there as well."""
    gang = make_gang(1)
    words = ["stage", "--data-root", str(gang.root), str(gang.root)]
    done = subprocess.run(
        [find_python_3_10(), str(gang.zipapp), *words], capture_output=True, check=True
    )
    assert json.loads(done.stdout)["staged"][0]["path"] == str(gang.root)


@pytest.mark.parametrize("words", [(), ("agnet",), ("agent",), ("agent", "--rank", "0", "--", "x")])
def test_wrong_use_is_64_with_a_sentence(node_zipapp: Path, words: tuple[str, ...]) -> None:
    """An unknown sub-command or flags that are missing end with 64 and one message, no traceback."""
    done = subprocess.run(
        [sys.executable, str(node_zipapp), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 64
    assert done.stderr
    assert "Traceback" not in done.stderr


def test_closed_lifeline_is_refused(make_gang: Callable[[int], Gang]) -> None:
    """A lifeline that is not there would end nothing, so that it is a mistake in the flags."""
    assert make_gang(1).start(0, "--lifeline-fd", "77").wait(20) == 64


def test_help_is_help(node_zipapp: Path) -> None:
    """`--help` lists the sub-commands, `agent --help` the flags."""
    for words in (("--help",), ("agent", "--help")):
        done = subprocess.run(
            [sys.executable, str(node_zipapp), *words], capture_output=True, text=True, check=True
        )
        assert "--rendezvous" in done.stdout
